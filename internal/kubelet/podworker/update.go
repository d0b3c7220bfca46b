package podworker

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// UpdatePodOptions is what a source, or the node itself, wants of one Pod.
type UpdatePodOptions struct {
	Pod         *v1.Pod
	Source      string               // api, file, http; runtime for a Pod that only the runtime knows
	Termination *podplan.Termination // nil: keep it running
	Gone        bool                 // the source does not have it any more: there is nobody to report to
}

// hasAPIStatus tells whether somebody reads the Pod's status: the API while it has the Pod, a
// static Pod's mirror to the end.
func (w UpdatePodOptions) hasAPIStatus() bool {
	return w.Source != SourceRuntime && (!w.Gone || pod.IsStatic(w.Pod))
}

// mergeUpdates merges a newer update into an older one: the newest Pod counts, a termination once
// asked for stays, and its deadline only moves earlier.
func mergeUpdates(old, newer UpdatePodOptions) UpdatePodOptions {
	out := newer
	if out.Pod == nil {
		out.Pod, out.Source = old.Pod, old.Source
	}
	out.Gone = old.Gone || newer.Gone
	out.Termination = earlierTermination(old.Termination, newer.Termination)
	return out
}

// earlierTermination is the request with the earlier deadline; the cause, and a reason if there was
// one, stay those of the first request.
func earlierTermination(old, newer *podplan.Termination) *podplan.Termination {
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

// stricter tells whether a asks for an earlier end than b.
func stricter(a, b *podplan.Termination) bool {
	return a != nil && (b == nil || a.Deadline().Before(b.Deadline()))
}
