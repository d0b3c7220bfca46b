// Package critest is the conformance suite for CRI runtimes that Gantry runs on: the fake in
// crifake, containerd, CRI-O.
//
// Run drives a runtime through the kubelet's own client and checks what the kubelet relies on: life
// cycle, idempotence, refusals, exit codes, logs, events, exec, stopping, attempts, filters.
//
// In: a Dialer. Out: a test report. FromEnv dials the runtime at GANTRY_CRI_ENDPOINT, with the
// image GANTRY_CRI_IMAGE (a busybox). To add a requirement: one function and its row in suite.
package critest
