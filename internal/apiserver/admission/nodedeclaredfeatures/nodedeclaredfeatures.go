// Package nodedeclaredfeatures is the admission plugin NodeDeclaredFeatureValidator: it refuses
// updates of bound Pods that need a feature which their node does not declare.
//
// In: a Pod being updated or resized, status.declaredFeatures of its Node. Out: nothing, or a
// refusal that names the features. KEP-5328 as v1.37 does it.
package nodedeclaredfeatures

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/gantry-project/gantry/internal/apiserver/admission/podresize"
)

// Plugin is the validating plugin NodeDeclaredFeatureValidator.
type Plugin struct {
	*admission.Handler
	nodes  corelisters.NodeLister
	client kubernetes.Interface
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Update)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Core().V1().Nodes()
	p.nodes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.nodes == nil || p.client == nil {
		return errors.New("node declared feature admission: no Nodes")
	}
	return nil
}

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
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	node, err := podresize.FindNode(ctx, p.nodes, p.client, pod.Spec.NodeName)
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
