// Package scheduler schedules Pods: it takes the next Pod off the queue, finds a node, and binds
// the Pod or puts it back. It has no policy of its own.
//
// The parts, each with a constructor in new.go: eventHandlers feed cacheAndQueue (the scheduler
// cache, the queue and the nominator behind one lock); schedulingCycle takes Pods from it, has
// algorithm find nodes and podGroupCycle schedule PodGroups; bindingCycle binds beside later
// cycles; failures puts back what failed; attemptFacts states what happened. It works with any
// Kubernetes API server through kubernetes.Interface.
//
// In: New(Options). Out: bindings, PodScheduled conditions, Events Scheduled and FailedScheduling
// in upstream's words, facts Queued, Ruled, Bound, BindFailed and Preempting in the journal. To
// add: plugins go to scheduler/plugins, those that write to scheduler/bind, metrics to
// scheduler/metrics; nothing belongs here but the order of steps.
package scheduler
