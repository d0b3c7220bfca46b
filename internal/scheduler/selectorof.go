package scheduler

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// selectorFinder finds the selectors of a Pod: those of Services, and of its controller.
type selectorFinder struct {
	services    corelisters.ServiceLister
	controllers corelisters.ReplicationControllerLister
	replicaSets appslisters.ReplicaSetLister
	stateful    appslisters.StatefulSetLister
}

func newSelectorFinder(f informers.SharedInformerFactory) *selectorFinder {
	return &selectorFinder{f.Core().V1().Services().Lister(), f.Core().V1().ReplicationControllers().Lister(),
		f.Apps().V1().ReplicaSets().Lister(), f.Apps().V1().StatefulSets().Lister()}
}

// selectorOf joins the selectors of all Services that select a Pod with that of its controller; an
// empty selector when there are none.
func (o *selectorFinder) selectorOf(p *v1.Pod) labels.Selector {
	set := labels.Set{}
	if all, err := o.services.Services(p.Namespace).List(labels.Everything()); err == nil {
		for _, svc := range all {
			if len(svc.Spec.Selector) > 0 && labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(p.Labels)) {
				set = labels.Merge(set, svc.Spec.Selector)
			}
		}
	}
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return set.AsSelector()
	}
	var own *metav1.LabelSelector
	switch owner.Kind {
	case "ReplicationController":
		if rc, err := o.controllers.ReplicationControllers(p.Namespace).Get(owner.Name); err == nil {
			set = labels.Merge(set, rc.Spec.Selector)
		}
	case "ReplicaSet":
		if rs, err := o.replicaSets.ReplicaSets(p.Namespace).Get(owner.Name); err == nil {
			own = rs.Spec.Selector
		}
	case "StatefulSet":
		if ss, err := o.stateful.StatefulSets(p.Namespace).Get(owner.Name); err == nil {
			own = ss.Spec.Selector
		}
	}
	selector := set.AsSelector()
	if own == nil {
		return selector
	}
	more, err := metav1.LabelSelectorAsSelector(own)
	if err != nil {
		return selector
	}
	if r, ok := more.Requirements(); ok {
		selector = selector.Add(r...)
	}
	return selector
}
