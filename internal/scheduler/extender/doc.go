// Package extender calls scheduler extenders: programs that filter and score nodes, bind and review
// preemptions over HTTP (k8s.io/kube-scheduler/extender/v1).
//
// In: the extenders of a KubeSchedulerConfiguration. Out: framework.Extender values, and Extenders,
// which asks them in order after the plugins. An extender that does not answer fails the attempt
// unless it is ignorable; one with managedResources is asked only about Pods that request one of
// them.
package extender
