// Package host runs a scheduler as a process: configuration file, client, leader election, and the HTTPS server on :10259.
//
// Chapter 2, waiting. `gantry up`, `gantry scheduler` and schedulers that others compile (package scheduler/app) all come through here.
// The server lets anybody ask /healthz, /livez and /readyz; /metrics and /configz are for whom the API server's authorizer lets (nonResourceURLs).
//
// In: Options. Out: a scheduler that runs while the lease is held. To add a path: a line in Server.handler.
package host
