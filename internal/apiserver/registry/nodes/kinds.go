package nodes

import (
	"context"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package; c reaches kubelets for the proxy subresource.
func Kinds(c pods.Connections) []resourcedef.Kind {
	return []resourcedef.Kind{{
		Version: "v1", Resource: "nodes", Singular: "node", Kind: "Node",
		Names: resourcedef.Names{Short: []string{"no"}},
		Types: resourcedef.Types{
			New:       func() runtime.Object { return &v1.Node{} },
			NewList:   func() runtime.Object { return &v1.NodeList{} },
			HasStatus: true, NoGenerate: true, KeepStatus: true,
		},
		Rules: resourcedef.Rules{
			Default:       func(o runtime.Object) { Default(o.(*v1.Node)) },
			PrepareCreate: func(_ context.Context, o runtime.Object) { drop(o.(*v1.Node), nil) },
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) { drop(o.(*v1.Node), old.(*v1.Node)) },
			PrepareStatus: func(_ context.Context, o, old runtime.Object) {
				o.(*v1.Node).Status.Config = old.(*v1.Node).Status.Config
			},
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList { return Validate(o.(*v1.Node)) },
			ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return ValidateUpdate(o.(*v1.Node), old.(*v1.Node))
			},
			ValidateStatus: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return ValidateStatusUpdate(o.(*v1.Node), old.(*v1.Node))
			},
			Warn: func(_ context.Context, o runtime.Object) []string { return warn(o.(*v1.Node)) },
			Fields: func(o runtime.Object) fields.Set {
				return fields.Set{"spec.unschedulable": strconv.FormatBool(o.(*v1.Node).Spec.Unschedulable)}
			},
			AllowUnconditionalUpdate: true,
		},
		Table:        table(),
		Subresources: c.NodeProxy,
	}}
}

// Default fills in what a Node leaves open: allocatable is the capacity until the kubelet says
// less.
func Default(n *v1.Node) {
	podspec.RoundResources(n.Status.Capacity)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
	podspec.RoundResources(n.Status.Allocatable)
	// podCIDR and podCIDRs are two forms of one list; the single field wins when they differ.
	s := &n.Spec
	switch {
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	}
}

// drop removes fields whose feature is off or gone, unless they are stored already.
func drop(n, old *v1.Node) {
	if old == nil || configSource(old) == nil {
		n.Spec.ConfigSource = nil //nolint:staticcheck // dropped because it is gone
	}
	if old == nil {
		n.Status.Config = nil
	}
	if old == nil || old.Spec.PodPreemptionPolicy == nil {
		n.Spec.PodPreemptionPolicy = nil
	}
}

// configSource is the field of a feature that is gone.
func configSource(n *v1.Node) *v1.NodeConfigSource {
	return n.Spec.ConfigSource //nolint:staticcheck // still read, to keep and to warn of
}

func warn(n *v1.Node) []string {
	var out []string
	if configSource(n) != nil {
		out = append(out, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	for i, r := range n.Spec.PodCIDRs {
		out = append(out, validation.GetWarningsForCIDR(field.NewPath("spec", "podCIDRs").Index(i), r)...)
	}
	return out
}
