package queue

import v1 "k8s.io/api/core/v1"

// EntityCounts counts what is scheduled as one: Pods that stand alone, and PodGroups.
type EntityCounts struct{ Pods, Groups int }

// EntityCounts counts by stage. A group counts at the stage where the first of its Pods will be
// tried soonest. of names a Pod's group within its namespace, empty for a Pod that stands alone; a
// nil of means that there are no groups.
func (q *Queue) EntityCounts(of func(*v1.Pod) string) map[Stage]EntityCounts {
	if of == nil {
		n := q.StageCounts()
		return map[Stage]EntityCounts{Active: {Pods: n.Active}, Backoff: {Pods: n.Backoff},
			Unschedulable: {Pods: n.Unschedulable}, Gated: {Pods: n.Gated}}
	}
	order := map[Stage]int{Active: 0, Backoff: 1, Unschedulable: 2, Gated: 3}
	out, groups := map[Stage]EntityCounts{}, map[[2]string]Stage{}
	for _, e := range q.entries {
		name := of(e.Pod())
		if name == "" {
			n := out[e.Stage]
			n.Pods++
			out[e.Stage] = n
			continue
		}
		key := [2]string{e.Pod().Namespace, name}
		if at, known := groups[key]; !known || order[e.Stage] < order[at] {
			groups[key] = e.Stage
		}
	}
	for _, at := range groups {
		n := out[at]
		n.Groups++
		out[at] = n
	}
	return out
}
