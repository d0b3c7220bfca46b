// Package critest is the suite every CRI runtime passes that Gantry runs on: the fake in crifake,
// containerd, CRI-O.
//
// Run drives a runtime through the kubelet's own client and checks what the kubelet relies on:
// life, idempotence, refusals, exit codes, logs, events, exec, stopping, attempts, filters.
//
// In: a Dialer. Out: a test report. FromEnv dials the runtime GANTRY_CRI_ENDPOINT names, with the
// image GANTRY_CRI_IMAGE (a busybox). To add a promise: one function and its row in suite.
package critest
