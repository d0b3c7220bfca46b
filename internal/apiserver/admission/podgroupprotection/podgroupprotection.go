// Package podgroupprotection is the admission plugin that adds the protection finalizer to
// PodGroups, so that none is removed while its Pods run.
//
// In: a PodGroup being created. Out: the finalizer that podgroup-protection-controller takes off
// when no Pod needs the group.
package podgroupprotection

import (
	"context"
	"slices"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apiserver/pkg/admission"
)

// Finalizer is what a PodGroup gets.
const Finalizer = "scheduling.k8s.io/podgroup-protection"

// Plugin is the mutating plugin PodGroupProtection.
type Plugin struct{ *admission.Handler }

// New makes it.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create)} }

// Admit implements admission.MutationInterface.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	g, ok := a.GetObject().(*schedulingv1beta1.PodGroup)
	if ok && a.GetSubresource() == "" && !slices.Contains(g.Finalizers, Finalizer) {
		g.Finalizers = append(g.Finalizers, Finalizer)
	}
	return nil
}
