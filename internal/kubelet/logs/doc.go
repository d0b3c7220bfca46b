// Package logs reads the log files container runtimes write (CRI format) the way `kubectl logs`
// asks: tail, since, limit, timestamps, follow.
//
// Serve answers /containerLogs with it; the termination message's fallback is read with it.
//
// In: a path, Options, and for following a State that knows whether the container still runs. Out:
// the lines, split by stream. parse.go decides what a line means; tail.go where to begin; follow.go
// waits for more, across rotation.
package logs
