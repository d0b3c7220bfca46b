package place

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/kube-scheduler/framework"
)

// Message is the text of FailedScheduling and of the PodScheduled condition: "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: …".
// An error prints as itself. Empty with a winner.
func (r *Ruling) Message() string {
	switch {
	case r.End == nil:
		return ""
	case r.Nodes() == 0 || r.Failed():
		return r.End.Message()
	}
	text := fmt.Sprintf("0/%d nodes are available:", r.Nodes())
	if r.preFilterMsg != "" {
		text += " " + r.preFilterMsg + "."
	} else if counted := r.countReasons(); len(counted) > 0 {
		text += " " + strings.Join(counted, ", ") + "."
	}
	if r.PostMsg != "" {
		text += " " + r.PostMsg
	}
	return text
}

func (r *Ruling) countReasons() []string {
	times := map[string]int{}
	for _, t := range r.tally() {
		count(times, t.status, t.nodes)
	}
	if absentees := r.Nodes() - r.refused(); r.absent != nil && absentees > 0 {
		count(times, r.absent, absentees)
	}
	return printed(times)
}

// CountReasons counts how often each reason was given and prints "count reason", sorted as strings like upstream; absent was said of the given number of nodes more.
func CountReasons(statuses []*framework.Status, absent *framework.Status, absentees int) []string {
	times := map[string]int{}
	for _, s := range statuses {
		count(times, s, 1)
	}
	if absent != nil && absentees > 0 {
		count(times, absent, absentees)
	}
	return printed(times)
}

func count(times map[string]int, s *framework.Status, nodes int) {
	for _, reason := range s.Reasons() {
		times[reason] += nodes
	}
}

func printed(times map[string]int) []string {
	out := make([]string, 0, len(times))
	for reason, n := range times {
		out = append(out, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(out)
	return out
}
