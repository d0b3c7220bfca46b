// Package server runs a scheduler as a process: configuration file, client, leader election, and
// the HTTPS server on :10259.
//
// `gantry up`, `gantry scheduler` and schedulers with out-of-tree plugins (package scheduler/app)
// all use it. The server has the paths of kube-scheduler v1.37.2 and its answers: /healthz, /livez
// and /readyz are open to everybody without wrong credentials, the rest (/metrics, /configz,
// /flagz, /statusz, …) to whom the API server authorizes (nonResourceURLs).
//
// In: Options. Out: a scheduler that runs while it holds the lease. To add a path: a line in
// server.handler.
package server
