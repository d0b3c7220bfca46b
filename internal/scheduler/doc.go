// Package scheduler is the loop: next, place, bind or put back. It has no policy of its own.
//
// Waiting, judged, bound. One goroutine takes the next Pod from queue, freezes a snapshot, asks
// place, and claims the node; binding goes on beside later cycles. One lock guards queue, world and
// nominations, which informers feed. It works with any Kubernetes API server through
// kubernetes.Interface.
//
// In: New(Options). Out: bindings, PodScheduled conditions, events Scheduled and FailedScheduling
// in upstream's words, facts Queued, Ruled, Bound, BindFailed and Preempting in the journal. To
// add: plugins go to scheduler/plugins, acting ones to scheduler/bind; nothing belongs here but the
// order of steps.
package scheduler
