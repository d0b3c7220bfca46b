// Package cri speaks CRI v1 to a container runtime over a unix socket and writes every call that
// changes something into the journal.
//
// The kubelet knows runtimes only as the interfaces of k8s.io/cri-api/pkg/apis; app dials here and
// passes Runtime() and Images() on.
//
// In: an endpoint (unix:///path) and a journal.Sink. Out: the two service interfaces, a stream of
// container events that reconnects by itself, what the runtime says it can do (Features), and signs
// that it may not be well, or that its images changed, so that nobody has to ask all the time.
//
// crifake is a runtime without containers for tests; critest is the suite that the fake and real
// runtimes pass alike. To add a call: its method in runtime.go or images.go and, if it changes
// something, its case in target.go.
package cri
