package limitranger

import (
	"fmt"
	"math"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// checkPod returns every limit of r that a Pod or one of its containers breaks. Texts are upstream's.
func checkPod(r *corev1.LimitRange, pod *corev1.Pod) []error {
	var errs []error
	for _, l := range r.Spec.Limits {
		switch l.Type {
		case corev1.LimitTypeContainer:
			for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range list {
					errs = append(errs, checkAll(l, list[i].Resources.Requests, list[i].Resources.Limits)...)
				}
			}
		case corev1.LimitTypePod:
			o := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
			errs = append(errs, checkAll(l, resourcehelper.PodRequests(pod, o), resourcehelper.PodLimits(pod, o))...)
		}
	}
	return errs
}

// checkClaim returns every limit of r that a claim breaks.
func checkClaim(r *corev1.LimitRange, c *corev1.PersistentVolumeClaim) []error {
	var errs []error
	for _, l := range r.Spec.Limits {
		if l.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		for _, k := range keys(l.Min) {
			errs = add(errs, atLeast(measure{l.Type, k, l.Min[k]}, c.Spec.Resources.Requests, c.Spec.Resources.Limits))
		}
		for _, k := range keys(l.Max) {
			errs = add(errs, requestAtMost(measure{l.Type, k, l.Max[k]}, c.Spec.Resources.Requests))
		}
	}
	return errs
}

func checkAll(l corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, k := range keys(l.Min) {
		errs = add(errs, atLeast(measure{l.Type, k, l.Min[k]}, requests, limits))
	}
	for _, k := range keys(l.Max) {
		errs = add(errs, atMost(measure{l.Type, k, l.Max[k]}, requests, limits))
	}
	for _, k := range keys(l.MaxLimitRequestRatio) {
		errs = add(errs, ratio(measure{l.Type, k, l.MaxLimitRequestRatio[k]}, requests, limits))
	}
	return errs
}

func keys(l corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(l))
	for k := range l {
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func add(errs []error, err error) []error {
	if err != nil {
		return append(errs, err)
	}
	return errs
}

// measure is one figure of a LimitRange.
type measure struct {
	of       corev1.LimitType
	resource corev1.ResourceName
	figure   resource.Quantity
}

func atLeast(m measure, requests, limits corev1.ResourceList) error {
	req, asked := requests[m.resource]
	lim, limited := limits[m.resource]
	switch {
	case !asked:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", m.resource, m.of, m.figure.String())
	case req.Cmp(m.figure) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", m.resource, m.of, m.figure.String(), req.String())
	case limited && lim.Cmp(m.figure) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", m.resource, m.of, m.figure.String(), lim.String())
	}
	return nil
}

func atMost(m measure, requests, limits corev1.ResourceList) error {
	req, asked := requests[m.resource]
	lim, limited := limits[m.resource]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", m.resource, m.of, m.figure.String())
	case lim.Cmp(m.figure) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", m.resource, m.of, m.figure.String(), lim.String())
	case asked && req.Cmp(m.figure) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", m.resource, m.of, m.figure.String(), req.String())
	}
	return nil
}

func requestAtMost(m measure, requests corev1.ResourceList) error {
	req, asked := requests[m.resource]
	switch {
	case !asked:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", m.resource, m.of, m.figure.String())
	case req.Cmp(m.figure) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", m.resource, m.of, m.figure.String(), req.String())
	}
	return nil
}

func ratio(m measure, requests, limits corev1.ResourceList) error {
	req, asked := requests[m.resource]
	lim, limited := limits[m.resource]
	r, l, most := float64(req.Value()), float64(lim.Value()), float64(m.figure.Value())
	if req.Value() <= math.MaxInt64/1000 && lim.Value() <= math.MaxInt64/1000 {
		r, l = float64(req.MilliValue()), float64(lim.MilliValue())
	}
	switch {
	case !asked || r == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", m.resource, m.of, m.figure.String())
	case !limited || l == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", m.resource, m.of, m.figure.String())
	}
	observed := l / r
	if m.figure.Value() <= math.MaxInt64/1000 {
		most = float64(m.figure.MilliValue()) / 1000
	}
	if observed > most {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", m.resource, m.of, m.figure.String(), observed)
	}
	return nil
}
