// Package pod says what a Pod asks for: requests and limits, quality of service, ports, priority,
// restart rules; and what its status means: ended, ready, its conditions.
//
// Functions over core/v1 that every component shares, so that scheduler, kubelet and API server
// count alike.
//
// In: *v1.Pod. Out: values; nothing here changes the Pod it is given.
// Pure. To add: one function per question, with the rule's source in its comment.
package pod
