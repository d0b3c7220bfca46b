// Package nodetaint is the admission plugin TaintNodesByCondition: a new Node gets the taint
// not-ready, so that no Pods go there until it has been Ready.
//
// In: a Node being created. Out: the taint node.kubernetes.io/not-ready:NoSchedule on it.
package nodetaint

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Plugin is the mutating plugin TaintNodesByCondition.
type Plugin struct{ *admission.Handler }

// New makes it.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("nodes") || a.GetSubresource() != "" {
		return nil
	}
	node, ok := a.GetObject().(*corev1.Node)
	if !ok {
		return nil
	}
	want := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(&want) {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, want)
	return nil
}
