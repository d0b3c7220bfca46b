package mirror

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// State is all that is known of one name.
type State struct {
	Static       *v1.Pod  // the static Pod that holds the name on this node; nil: none
	Terminating  bool     // its source does not have it any more, or it is to be replaced
	Mirror       *v1.Pod  // what the API has; nil: nothing, or not known yet
	Node         *v1.Node // as the API has it; nil: not known yet
	Synced       bool     // the API has said what Pods this node has
	SourcesReady bool     // so have all other sources
}

// Action is what is to be done for one name.
type Action int

// Acts.
const (
	Nothing Action = iota
	Create
	Delete
)

// Next decides. A mirror stays while its Pod ends, so that what still runs can be read; it goes
// with the Pod.
func Next(s State) Action {
	switch {
	case !s.Synced || s.Static == nil && !s.SourcesReady:
		return Nothing
	case s.Static == nil && s.Mirror != nil:
		return Delete
	case s.Static == nil:
		return Nothing
	case s.Mirror != nil && (s.Mirror.DeletionTimestamp != nil || !IsMirrorOf(s.Mirror, s.Static)):
		return Delete
	case s.Mirror != nil, s.Terminating, s.Node == nil, s.Node.DeletionTimestamp != nil:
		return Nothing
	}
	return Create
}

// IsMirrorOf tells whether a mirror is that of the Pod as it is now.
func IsMirrorOf(m, p *v1.Pod) bool {
	return m.Namespace == p.Namespace && m.Name == p.Name && m.Annotations[v1.MirrorPodAnnotationKey] == hash(p)
}

func hash(p *v1.Pod) string { return p.Annotations[static.HashAnnotation] }

// NewMirrorPod is the Pod that mirrors a static one, as it is created: owned by the node, so that
// it goes with it.
func NewMirrorPod(p *v1.Pod, node *v1.Node) *v1.Pod {
	m := p.DeepCopy()
	isTrue := true
	m.Annotations[v1.MirrorPodAnnotationKey] = hash(p)
	m.UID, m.ResourceVersion = "", ""
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		Controller: &isTrue}}
	return m
}

// MirrorStatus is a static Pod's status as its mirror shows it: times that the mirror has from an
// earlier kubelet stay, and so do conditions of others.
func MirrorStatus(m *v1.Pod, s v1.PodStatus) v1.PodStatus {
	out := *s.DeepCopy()
	if t := m.Status.StartTime; t != nil && out.StartTime != nil && t.Before(out.StartTime) {
		out.StartTime = t
	}
	if out.QOSClass == "" {
		out.QOSClass = m.Status.QOSClass
	}
	for _, old := range m.Status.Conditions {
		owned := false
		for i := range out.Conditions {
			c := &out.Conditions[i]
			if c.Type != old.Type {
				continue
			}
			owned = true
			if c.Status == old.Status && old.LastTransitionTime.Before(&c.LastTransitionTime) {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		if !owned {
			out.Conditions = append(out.Conditions, old)
		}
	}
	return out
}
