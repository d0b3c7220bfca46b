// Package runtimeclass is the admission plugin RuntimeClass: it writes the overhead and the
// scheduling constraints of a Pod's RuntimeClass into the Pod.
//
// In: a Pod being created, its RuntimeClass. Out: spec.overhead, node selector and tolerations, or
// a refusal.
package runtimeclass

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	nodelisters "k8s.io/client-go/listers/node/v1"
)

// Plugin is the plugin RuntimeClass.
type Plugin struct {
	*admission.Handler
	client  kubernetes.Interface
	classes nodelisters.RuntimeClassLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Create)} }

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (p *Plugin) SetExternalKubeClientSet(c kubernetes.Interface) { p.client = c }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Node().V1().RuntimeClasses()
	p.classes = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.client == nil || p.classes == nil {
		return errors.New("runtime class admission: no client or no informer of RuntimeClasses")
	}
	return nil
}

// getRuntimeClass returns the Pod's class, nil when it names none.
func (p *Plugin) getRuntimeClass(ctx context.Context, a admission.Attributes,
	pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	if pod.Spec.RuntimeClassName == nil {
		return nil, nil
	}
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	name := *pod.Spec.RuntimeClassName
	c, err := p.classes.Get(name)
	if apierrors.IsNotFound(err) { // it may be too new for the informer
		c, err = p.client.NodeV1().RuntimeClasses().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, admission.NewForbidden(a, fmt.Errorf("pod rejected: RuntimeClass %q not found", name))
	}
	return c, err
}

func podOf(a admission.Attributes) (*corev1.Pod, bool) {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil, false
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	return pod, ok
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := podOf(a)
	if !ok {
		return nil
	}
	c, err := p.getRuntimeClass(ctx, a, pod)
	if err != nil || c == nil {
		return err
	}
	if err := setOverhead(pod, c); err != nil {
		return admission.NewForbidden(a, err)
	}
	if err := setScheduling(pod, c); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

var errOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")

// setOverhead writes the class's overhead into the Pod.
func setOverhead(pod *corev1.Pod, c *nodev1.RuntimeClass) error {
	if c.Overhead == nil {
		return nil
	}
	if pod.Spec.Overhead != nil && !equality.Semantic.DeepEqual(c.Overhead.PodFixed, pod.Spec.Overhead) {
		return errOverhead
	}
	pod.Spec.Overhead = c.Overhead.PodFixed.DeepCopy()
	return nil
}

// setScheduling adds the class's node selector and tolerations.
func setScheduling(pod *corev1.Pod, c *nodev1.RuntimeClass) error {
	if c.Scheduling == nil {
		return nil
	}
	for k, want := range c.Scheduling.NodeSelector {
		if have, there := pod.Spec.NodeSelector[k]; there && have != want {
			return fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
				k, want, k, have)
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[k] = want
	}
	pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, c.Scheduling.Tolerations)
	return nil
}

// mergeTolerations returns two lists one after the other, without what another of them includes; of
// equal ones the first stays.
func mergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var out []corev1.Toleration
	for i := range all {
		included := slices.ContainsFunc(out, func(t corev1.Toleration) bool { return includes(&t, &all[i]) }) ||
			slices.ContainsFunc(all[i+1:], func(t corev1.Toleration) bool {
				return !equality.Semantic.DeepEqual(t, all[i]) && includes(&t, &all[i])
			})
		if !included {
			out = append(out, all[i])
		}
	}
	return out
}

// includes reports whether wide tolerates all that narrow does.
func includes(wide, narrow *corev1.Toleration) bool {
	exists := wide.Operator == corev1.TolerationOpExists
	switch {
	case equality.Semantic.DeepEqual(wide, narrow):
		return true
	case wide.Key != narrow.Key && (wide.Key != "" || !exists):
		return false
	case wide.Effect != "" && wide.Effect != narrow.Effect:
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds):
		return false
	case exists:
		return true
	case wide.Operator == corev1.TolerationOpEqual || wide.Operator == "":
		return narrow.Operator == corev1.TolerationOpEqual && narrow.Value == wide.Value
	}
	return false
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, ok := podOf(a)
	if !ok {
		return nil
	}
	c, err := p.getRuntimeClass(ctx, a, pod)
	switch {
	case err != nil:
		return err
	case c != nil && c.Overhead != nil:
		if !equality.Semantic.DeepEqual(c.Overhead.PodFixed, pod.Spec.Overhead) {
			return admission.NewForbidden(a, errOverhead)
		}
	case len(pod.Spec.Overhead) > 0:
		return admission.NewForbidden(a,
			errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	}
	return nil
}
