// Package server runs a scheduler as a process: configuration file, client, leader election, and
// the HTTPS server on :10259.
//
// `gantry up`, `gantry scheduler` and schedulers that others compile (package scheduler/app) all
// come through here. The server has the paths of kube-scheduler v1.37.2 and its answers: /healthz,
// /livez and /readyz are for all who do not show wrong credentials, the rest (/metrics, /configz,
// /flagz, /statusz, …) for whom the API server lets (nonResourceURLs).
//
// In: Options. Out: a scheduler that runs while the lease is held. To add a path: a line in
// Server.handler.
package server
