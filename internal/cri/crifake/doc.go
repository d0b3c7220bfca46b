// Package crifake is a CRI v1 runtime without containers: an honest gRPC server over a unix socket
// (or in memory) for tests and testcluster.
//
// It obeys the protocol as containerd does: illegal orders are refused, stop and remove are
// idempotent, exit codes, logs and events are real; critest proves it and containerd by the same
// suite. What a container does is a Script: a POSIX shell text run by an interpreter with its own
// few commands (no program of the host is ever started), or Go. Paths of mounts reach the real
// files behind them.
//
// In: CRI calls; Scripts by On, by Pod annotation fake.gantry.dev/<container>, by the container's
// own command; faults by Fault. Out: CRI answers, log files, events; Dump prints the state, Calls
// what was asked.
//
// To add a shell command: one row in commands (commands.go). To add an RPC: the file of its area.
package crifake
