// Package changes looks at what the API changes in Pods that are on this node, and says which changes need what this kubelet does not do.
//
// Chapter 5, received. The API server refuses such changes where it knows KEP-5328; behind an older one the kubelet is the only one to tell.
//
// In: what a source says, on its way to intake's Merge. Out: the same, and an event per change that cannot be obeyed. To add a rule: admit.Change.
package changes

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/intake"
)

// Failed is the reason of the event, as upstream calls it.
const Failed = "FailedNodeDeclaredFeaturesCheck"

// Deps are what Watch needs.
type Deps struct {
	Declared []string                                // features of this node
	Event    func(p *v1.Pod, kind, why, said string) // tells the Pod's owner
}

// Watch returns a receiver that passes on to another. One source alone may speak to it, as sources speak one thing after another.
func Watch(to intake.Receiver, d Deps) intake.Receiver {
	return &watcher{to: to, d: d, last: map[types.UID]*v1.Pod{}}
}

type watcher struct {
	to   intake.Receiver
	d    Deps
	last map[types.UID]*v1.Pod
}

// Put implements intake.Receiver.
func (w *watcher) Put(source string, p *v1.Pod) {
	old := w.last[p.UID]
	w.last[p.UID] = p
	if old != nil && old.Generation != p.Generation && !equality.Semantic.DeepEqual(&old.Spec, &p.Spec) {
		if no := admit.Change(old, p, w.d.Declared); no != nil {
			w.d.Event(p, v1.EventTypeWarning, Failed, no.Detail)
		}
	}
	w.to.Put(source, p)
}

// Gone implements intake.Receiver.
func (w *watcher) Gone(source string, p *v1.Pod, forced bool) {
	delete(w.last, p.UID)
	w.to.Gone(source, p, forced)
}

// Complete implements intake.Receiver.
func (w *watcher) Complete(source string) { w.to.Complete(source) }
