package schedule

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/kube-scheduler/framework"
)

// Message is the text of FailedScheduling and of the PodScheduled condition: "0/3 nodes are
// available: 1 Insufficient cpu, 2 node(s) were unschedulable. preemption: …". An error prints as
// itself. Empty with a winner. It is what upstream's FitError.Error
// makes of a Diagnosis; here Result and its diagnosis take their place. The reasons are those that
// the plugins' Filter gave, counted: "Insufficient cpu" is NodeResourcesFit's
// (plugins/noderesources).
func (r *Result) Message() string {
	switch {
	case r.Status == nil:
		return ""
	case r.Nodes() == 0 || r.Failed():
		return r.Status.Message()
	}
	text := fmt.Sprintf("0/%d nodes are available:", r.Nodes())
	if r.preFilterMsg != "" {
		text += " " + r.preFilterMsg + "."
	} else if counted := r.countReasons(); len(counted) > 0 {
		text += " " + strings.Join(counted, ", ") + "."
	}
	if r.PostFilterMsg != "" {
		text += " " + r.PostFilterMsg
	}
	return text
}

// countReasons counts over all nodes how often each reason was given, and prints them as
// CountReasons does.
func (r *Result) countReasons() []string {
	times := map[string]int{}
	for _, t := range r.countStatuses() {
		addReasons(times, t.status, t.nodes)
	}
	if absentees := r.Nodes() - r.countRefused(); r.absent != nil && absentees > 0 {
		addReasons(times, r.absent, absentees)
	}
	return formatReasons(times)
}

// CountReasons counts how often each reason was given and prints "count reason", sorted as strings
// like upstream; absent was said of the given number of nodes more.
func CountReasons(statuses []*framework.Status, absent *framework.Status, absentees int) []string {
	times := map[string]int{}
	for _, s := range statuses {
		addReasons(times, s, 1)
	}
	if absent != nil && absentees > 0 {
		addReasons(times, absent, absentees)
	}
	return formatReasons(times)
}

func addReasons(times map[string]int, s *framework.Status, nodes int) {
	for _, reason := range s.Reasons() {
		times[reason] += nodes
	}
}

// formatReasons prints "count reason" for each reason, sorted as strings.
func formatReasons(times map[string]int) []string {
	out := make([]string, 0, len(times))
	for reason, n := range times {
		out = append(out, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(out)
	return out
}
