// Package crifake is a CRI v1 runtime without containers: a real gRPC server on a unix socket (or
// in memory) for tests and testcluster.
//
// It follows the protocol as containerd does: invalid requests are refused, stop and remove are
// idempotent, exit codes, logs and events are real; critest runs the same suite against it and
// containerd. What a container does is a Script: POSIX shell text run by an interpreter with
// commands of its own (no program of the host is started), or Go. Paths of mounts reach the real
// files behind them.
//
// In: CRI calls; Scripts from On, from the Pod annotation fake.gantry.dev/<container>, from the
// container's command; faults from Fault. Out: CRI responses, log files, events; Dump prints the
// state, Calls lists the requests.
//
// To add a shell command: one row in commands (commands.go). To add an RPC: the file of its area.
package crifake
