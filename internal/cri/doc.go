// Package cri is a CRI v1 client over a unix socket that writes each changing call into the
// journal.
//
// The kubelet uses runtimes only through the interfaces of k8s.io/cri-api/pkg/apis; app dials here
// and passes Runtime() and Images() on.
//
// In: an endpoint (unix:///path) and a journal.Sink. Out: the two service interfaces; a stream of
// container events that reconnects; the runtime's Features; Signals that the runtime may be
// unhealthy or that its images changed, so that nobody has to poll.
//
// crifake is a runtime without containers for tests; critest is the suite for the fake and real
// runtimes. To add a call: its method in the file of its service and, if it changes something, its
// case in target.go.
package cri
