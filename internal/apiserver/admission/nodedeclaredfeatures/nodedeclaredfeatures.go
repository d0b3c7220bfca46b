// Package nodedeclaredfeatures is the admission plugin NodeDeclaredFeatureValidator: it refuses
// updates of bound Pods that need a feature which their node does not declare.
//
// In: a Pod being updated or resized, status.declaredFeatures of its Node. Out: nothing, or a
// refusal that names the features. KEP-5328 as v1.37 does it.
package nodedeclaredfeatures

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/gantry-project/gantry/internal/apiserver/admission/nodelister"
)

// Plugin is the validating plugin NodeDeclaredFeatureValidator.
type Plugin struct{ nodelister.Handler }

// New makes it.
func New() *Plugin { return &Plugin{nodelister.New("node declared feature")} }

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" &&
		a.GetSubresource() != "resize" {
		return nil
	}
	pod, isPod := a.GetObject().(*corev1.Pod)
	old, wasPod := a.GetOldObject().(*corev1.Pod)
	if !isPod || !wasPod || pod.Spec.NodeName == "" {
		return nil
	}
	needs, err := Needs(old, pod)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("failed to infer pod capability requirements: %w", err))
	}
	if needs.IsEmpty() {
		return nil
	}
	node, err := p.Node(ctx, pod.Spec.NodeName)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	match, err := ndf.DefaultFramework.MatchNode(needs, node)
	switch {
	case err != nil:
		return admission.NewForbidden(a, fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name,
			err))
	case !match.IsMatch:
		return admission.NewForbidden(a, fmt.Errorf(
			"pod update requires features %s which are not available on node %q",
			strings.Join(match.UnsatisfiedRequirements, ", "), node.Name))
	}
	return nil
}

// Needs are the features that a node must have for a change of a Pod. A change of the number of
// init containers, which validation refuses, needs none.
func Needs(old, cur *corev1.Pod) (ndf.FeatureSet, error) {
	if len(old.Spec.InitContainers) != len(cur.Spec.InitContainers) {
		return ndf.FeatureSet{}, nil
	}
	return ndf.DefaultFramework.InferForPodUpdate(&ndf.PodInfo{Spec: &old.Spec, Status: &old.Status},
		&ndf.PodInfo{Spec: &cur.Spec, Status: &cur.Status}, version.MajorMinor(1, 37))
}
