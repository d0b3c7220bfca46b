// Package declaredfeatures finds updates of Pods on this node that need a feature which this
// kubelet does not declare.
//
// The API server refuses such changes where it knows KEP-5328; behind an older one the kubelet is
// the only one to tell.
//
// In: what a source says, on its way to intake's Merge. Out: the same, and an event per change that
// cannot be obeyed. To add a rule: admit.CheckUpdate.
package declaredfeatures

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podsource"
)

// FailedCheckReason is the reason of the event, as upstream calls it.
const FailedCheckReason = "FailedNodeDeclaredFeaturesCheck"

// Deps are what Watch needs.
type Deps struct {
	Declared []string                                   // features of this node
	Event    func(p *v1.Pod, kind, why, message string) // tells the Pod's owner
}

// Watch returns a receiver that passes on to another. One source alone may speak to it, as sources
// speak one thing after another.
func Watch(to podsource.Receiver, d Deps) podsource.Receiver {
	return &featureChecker{next: to, d: d, last: map[types.UID]*v1.Pod{}}
}

type featureChecker struct {
	next podsource.Receiver
	d    Deps
	last map[types.UID]*v1.Pod
}

// Put implements podsource.Receiver.
func (w *featureChecker) Put(source string, p *v1.Pod) {
	old := w.last[p.UID]
	w.last[p.UID] = p
	if old != nil && old.Generation != p.Generation && !equality.Semantic.DeepEqual(&old.Spec, &p.Spec) {
		if refusal := admit.CheckUpdate(old, p, w.d.Declared); refusal != nil {
			w.d.Event(p, v1.EventTypeWarning, FailedCheckReason, refusal.Detail)
		}
	}
	w.next.Put(source, p)
}

// Remove implements podsource.Receiver.
func (w *featureChecker) Remove(source string, p *v1.Pod, forced bool) {
	delete(w.last, p.UID)
	w.next.Remove(source, p, forced)
}

// Complete implements podsource.Receiver.
func (w *featureChecker) Complete(source string) { w.next.Complete(source) }
