package limitranger

import (
	"context"
	"errors"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Plugin is the plugin LimitRanger.
type Plugin struct {
	*admission.Handler
	ranges corelisters.LimitRangeLister
}

// New makes it.
func New() *Plugin { return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update)} }

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Core().V1().LimitRanges()
	p.ranges = i.Lister()
	p.SetReadyFunc(i.Informer().HasSynced)
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *Plugin) ValidateInitialization() error {
	if p.ranges == nil {
		return errors.New("limit ranger: no informer of LimitRanges")
	}
	return nil
}

// supportsAttributes tells whether a write has to do with limits. A Pod's requests do not change
// later except by resize, which is only checked.
func supportsAttributes(a admission.Attributes) (any, bool) {
	if m, err := meta.Accessor(a.GetObject()); a.GetOperation() == admission.Update &&
		(err != nil || m.GetDeletionTimestamp() != nil) {
		return nil, false
	}
	switch o := a.GetObject().(type) {
	case *corev1.Pod:
		if a.GetResource().GroupResource() != corev1.Resource("pods") {
			return nil, false
		}
		created := a.GetOperation() == admission.Create && a.GetSubresource() == ""
		resized := a.GetOperation() == admission.Update && a.GetSubresource() == "resize"
		return o, created || resized
	case *corev1.PersistentVolumeClaim:
		return o, a.GetSubresource() == ""
	}
	return nil, false
}

func (p *Plugin) limitRangesFor(a admission.Attributes) ([]*corev1.LimitRange, error) {
	if !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	list, err := p.ranges.LimitRanges(a.GetNamespace()).List(labels.Everything())
	if err != nil {
		return nil, admission.NewForbidden(a,
			fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges",
				a.GetOperation(), a.GetResource()))
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

// Admit implements admission.MutationInterface.
func (p *Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	o, ok := supportsAttributes(a)
	pod, isPod := o.(*corev1.Pod)
	if !ok || !isPod || a.GetOperation() != admission.Create {
		return nil
	}
	list, err := p.limitRangesFor(a)
	if err != nil {
		return err
	}
	for _, r := range list {
		mergePodResourceRequirements(r, pod)
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	o, ok := supportsAttributes(a)
	if !ok {
		return nil
	}
	list, err := p.limitRangesFor(a)
	if err != nil {
		return err
	}
	for _, r := range list {
		var errs []error
		switch o := o.(type) {
		case *corev1.Pod:
			errs = checkPod(r, o)
		case *corev1.PersistentVolumeClaim:
			errs = checkClaim(r, o)
		}
		if len(errs) > 0 {
			return admission.NewForbidden(a, utilerrors.NewAggregate(errs))
		}
	}
	return nil
}
