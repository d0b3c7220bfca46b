package queue

import v1 "k8s.io/api/core/v1"

// Entities counts what is scheduled as one: Pods that stand alone, and PodGroups.
type Entities struct{ Pods, Groups int }

// Entities counts by place. A group stands where the first of its Pods will be tried soonest; of names a Pod's group within its namespace, empty for a Pod that stands alone. A
// nil of: there are no groups.
func (q *Queue) Entities(of func(*v1.Pod) string) map[Place]Entities {
	if of == nil {
		n := q.Count()
		return map[Place]Entities{Active: {Pods: n.Active}, Backoff: {Pods: n.Backoff}, Unschedulable: {Pods: n.Unschedulable}, Gated: {Pods: n.Gated}}
	}
	order := map[Place]int{Active: 0, Backoff: 1, Unschedulable: 2, Gated: 3}
	out, groups := map[Place]Entities{}, map[[2]string]Place{}
	for _, e := range q.all {
		name := of(e.Pod())
		if name == "" {
			n := out[e.Place]
			n.Pods++
			out[e.Place] = n
			continue
		}
		key := [2]string{e.Pod().Namespace, name}
		if at, known := groups[key]; !known || order[e.Place] < order[at] {
			groups[key] = e.Place
		}
	}
	for _, at := range groups {
		n := out[at]
		n.Groups++
		out[at] = n
	}
	return out
}
