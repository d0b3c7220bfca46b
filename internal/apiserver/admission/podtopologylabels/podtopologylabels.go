// Package podtopologylabels puts its node's zone and region on a Pod that is made with its node
// already chosen (a static Pod's mirror). A Pod that is bound later gets them from its binding, in
// registry/pods.
//
// In: a Pod being created, the Nodes. Out: labels of the Pod. KEP-4742.
package podtopologylabels

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Plugin is the mutating plugin PodTopologyLabels.
type Plugin struct {
	*admission.Handler
	nodes corelisters.NodeLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Core().V1().Nodes()
	p.nodes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.nodes == nil {
		return errors.New("pod topology labels admission: no informer of Nodes")
	}
	return nil
}

// Admit implements admission.MutationInterface. A node that is not known has no topology.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok || a.GetSubresource() != "" || pod.Spec.NodeName == "" {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	node, err := p.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return nil
	}
	for _, k := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if v, ok := node.Labels[k]; ok {
			if pod.Labels == nil {
				pod.Labels = map[string]string{}
			}
			pod.Labels[k] = v
		}
	}
	return nil
}
