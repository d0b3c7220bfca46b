package podworker

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// Wish is what a source wants of one Pod.
type Wish struct {
	Pod    *v1.Pod
	Source string       // api, file, http; runtime for a Pod that only the runtime knows
	End    *podplan.End // nil: let it run
	Gone   bool         // the source does not have it any more: there is nobody to report to
}

// reported tells whether somebody reads the Pod's status: the API while it has the Pod, a static Pod's mirror to the end.
func (w Wish) reported() bool {
	return w.Source != SourceRuntime && (!w.Gone || pod.IsStatic(w.Pod))
}

// tighten merges a newer wish into an older one: the newest Pod counts, an end once asked for stays, and its deadline only moves earlier.
func tighten(old, newer Wish) Wish {
	out := newer
	if out.Pod == nil {
		out.Pod, out.Source = old.Pod, old.Source
	}
	out.Gone = old.Gone || newer.Gone
	out.End = earlier(old.End, newer.End)
	return out
}

func earlier(old, newer *podplan.End) *podplan.End {
	switch {
	case old == nil:
		return newer
	case newer == nil || !newer.Deadline().Before(old.Deadline()):
		return old
	}
	out := *newer
	out.Cause = old.Cause
	if old.Reason != "" {
		out.Reason, out.Message, out.Victim = old.Reason, old.Message, old.Victim
	}
	return &out
}

// tighter tells whether a wish asks for an earlier end than another.
func tighter(a, b *podplan.End) bool {
	return a != nil && (b == nil || a.Deadline().Before(b.Deadline()))
}
