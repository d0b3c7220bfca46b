package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/pod"
)

// schedulersAtWork are the names of schedulers that have placed Pods, and the default one where
// nobody has.
func schedulersAtWork(in In) []string {
	names := []string{corev1.DefaultSchedulerName}
	if in.ClusterContext != nil {
		for _, p := range in.ClusterContext.Pods {
			if s := p.Spec.SchedulerName; p.Spec.NodeName != "" && s != "" && !slices.Contains(names, s) &&
				pod.Condition(p, corev1.PodScheduled) != nil {
				names = append(names, s)
			}
		}
	}
	return names
}

func notAttempted(a *Answer, in In) {
	if c := pod.Condition(in.Pod, corev1.PodScheduled); c != nil && c.Message != "" {
		a.Cause = "No node fits: " + c.Message
		a.Next = "the Pod is tried again when something changes that can help"
		return
	}
	a.Cause = fmt.Sprintf("No scheduler has looked at the Pod yet. It asks for scheduler %q (spec.schedulerName).",
		in.Pod.Spec.SchedulerName)
	if names := schedulersAtWork(in); len(names) > 0 && !slices.Contains(names, in.Pod.Spec.SchedulerName) {
		a.Cause += fmt.Sprintf(" None of that name has placed a Pod here; those that have: %s.", joinList(names))
		if near, how := finding.Near(in.Pod.Spec.SchedulerName, names); near != "" {
			a.Cause += fmt.Sprintf(" Perhaps %s was meant; %s.", near, how)
		}
	}
	if in.Pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		a.Fixes = append(a.Fixes,
			editedPodFix(in, "let the scheduler that is there place it (schedulerName: "+corev1.DefaultSchedulerName+
				")", func(s *corev1.PodSpec) { s.SchedulerName = corev1.DefaultSchedulerName }))
	}
	a.Fixes = append(a.Fixes,
		textFixes("check that a scheduler of that name runs; Gantry's own serves the profiles of its configuration, "+
			"by default default-scheduler")...)
}
