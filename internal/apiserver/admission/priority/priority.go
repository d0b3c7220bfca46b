// Package priority is the admission plugin Priority: it resolves a Pod's priorityClassName to its
// priority, and refuses a second PriorityClass with globalDefault.
//
// In: a Pod or PriorityClass being written, the PriorityClasses. Out: spec.priority and
// spec.preemptionPolicy, or a refusal.
package priority

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
)

// Plugin is the plugin Priority.
type Plugin struct {
	*admission.Handler
	classes schedulinglisters.PriorityClassLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Scheduling().V1().PriorityClasses()
	p.classes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.classes == nil {
		return fmt.Errorf("priority: no informer of PriorityClasses")
	}
	return nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == schedulingv1.Resource("podgroups") && a.GetSubresource() == "" {
		return p.admitGroup(a)
	}
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return nil
	}
	if a.GetOperation() == admission.Update {
		old, ok := a.GetOldObject().(*corev1.Pod)
		if ok {
			keepPriorityFields(pod, old)
		}
		return nil
	}
	class, err := p.getPriorityClass(a, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	if err := setPriority(pod, class); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// keepPriorityFields restores what an update left out: both fields are settled at creation.
func keepPriorityFields(pod, old *corev1.Pod) {
	if pod.Spec.Priority == nil {
		pod.Spec.Priority = old.Spec.Priority
	}
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
	}
}

// systemClasses are there even before their objects are.
var systemClasses = map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}

func (p *Plugin) getPriorityClass(a admission.Attributes, name string) (*schedulingv1.PriorityClass, error) {
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, fmt.Errorf("not yet ready to handle request"))
	}
	if name == "" {
		c, err := p.getDefaultPriorityClass()
		if err != nil {
			return nil, fmt.Errorf("failed to get default priority class: %w", err)
		}
		if c == nil {
			c = &schedulingv1.PriorityClass{}
		}
		return c, nil
	}
	c, err := p.classes.Get(name)
	switch value, system := systemClasses[name]; {
	case err == nil:
		return c, nil
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("failed to get PriorityClass with name %s: %w", name, err)
	case system:
		c = &schedulingv1.PriorityClass{Value: value}
		c.Name = name
		return c, nil
	}
	return nil, admission.NewForbidden(a, fmt.Errorf("no PriorityClass with name %v was found", name))
}

// getDefaultPriorityClass is the class of Pods that name none: the lowest of those marked as
// default, should there be several.
func (p *Plugin) getDefaultPriorityClass() (*schedulingv1.PriorityClass, error) {
	list, err := p.classes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var out *schedulingv1.PriorityClass
	for _, c := range list {
		if c.GlobalDefault && (out == nil || c.Value < out.Value) {
			out = c
		}
	}
	return out, nil
}

// setPriority writes what a class means into a Pod. A Pod may state its numbers itself only if they
// are the same.
func setPriority(pod *corev1.Pod, class *schedulingv1.PriorityClass) error {
	pod.Spec.PriorityClassName = class.Name
	if p := pod.Spec.Priority; p != nil && *p != class.Value {
		return fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission "+
			"controller computed %d from the given PriorityClass name", *p, class.Value)
	}
	value := class.Value
	pod.Spec.Priority = &value
	preempt := corev1.PreemptLowerPriority
	if class.PreemptionPolicy != nil {
		preempt = *class.PreemptionPolicy
	}
	if p := pod.Spec.PreemptionPolicy; p != nil && *p != preempt {
		return fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority "+
			"admission controller computed %s from the given PriorityClass name", *p, preempt)
	}
	pod.Spec.PreemptionPolicy = &preempt
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != schedulingv1.Resource("priorityclasses") || a.GetSubresource() != "" {
		return nil
	}
	c, ok := a.GetObject().(*schedulingv1.PriorityClass)
	if !ok || !c.GlobalDefault {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, fmt.Errorf("not yet ready to handle request"))
	}
	is, err := p.getDefaultPriorityClass()
	if err != nil {
		return fmt.Errorf("failed to get default priority class: %w", err)
	}
	if is != nil && (a.GetOperation() == admission.Create || is.Name != c.Name) {
		return admission.NewForbidden(a,
			fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", is.Name))
	}
	return nil
}
