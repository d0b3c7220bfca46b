package limitranger

import (
	"fmt"
	"math"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// checkPod returns every limit of r that a Pod or one of its containers breaks. Texts are
// upstream's.
func checkPod(r *corev1.LimitRange, pod *corev1.Pod) []error {
	var errs []error
	for _, l := range r.Spec.Limits {
		switch l.Type {
		case corev1.LimitTypeContainer:
			for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range list {
					errs = append(errs, checkConstraints(l, list[i].Resources.Requests, list[i].Resources.Limits)...)
				}
			}
		case corev1.LimitTypePod:
			o := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
			errs = append(errs, checkConstraints(l, resourcehelper.PodRequests(pod, o),
				resourcehelper.PodLimits(pod, o))...)
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
			errs = add(errs, minConstraint(constraint{l.Type, k, l.Min[k]}, c.Spec.Resources.Requests,
				c.Spec.Resources.Limits))
		}
		for _, k := range keys(l.Max) {
			errs = add(errs, maxRequestConstraint(constraint{l.Type, k, l.Max[k]}, c.Spec.Resources.Requests))
		}
	}
	return errs
}

func checkConstraints(l corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, k := range keys(l.Min) {
		errs = add(errs, minConstraint(constraint{l.Type, k, l.Min[k]}, requests, limits))
	}
	for _, k := range keys(l.Max) {
		errs = add(errs, maxConstraint(constraint{l.Type, k, l.Max[k]}, requests, limits))
	}
	for _, k := range keys(l.MaxLimitRequestRatio) {
		errs = add(errs, limitRequestRatioConstraint(constraint{l.Type, k, l.MaxLimitRequestRatio[k]}, requests,
			limits))
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

// constraint is one figure of a LimitRange.
type constraint struct {
	limitType corev1.LimitType
	resource  corev1.ResourceName
	limit     resource.Quantity
}

func minConstraint(m constraint, requests, limits corev1.ResourceList) error {
	req, requested := requests[m.resource]
	lim, limited := limits[m.resource]
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", m.resource, m.limitType,
			m.limit.String())
	case req.Cmp(m.limit) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", m.resource, m.limitType, m.limit.String(),
			req.String())
	case limited && lim.Cmp(m.limit) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", m.resource, m.limitType, m.limit.String(),
			lim.String())
	}
	return nil
}

func maxConstraint(m constraint, requests, limits corev1.ResourceList) error {
	req, requested := requests[m.resource]
	lim, limited := limits[m.resource]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", m.resource, m.limitType,
			m.limit.String())
	case lim.Cmp(m.limit) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", m.resource, m.limitType, m.limit.String(),
			lim.String())
	case requested && req.Cmp(m.limit) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", m.resource, m.limitType, m.limit.String(),
			req.String())
	}
	return nil
}

func maxRequestConstraint(m constraint, requests corev1.ResourceList) error {
	req, requested := requests[m.resource]
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", m.resource, m.limitType,
			m.limit.String())
	case req.Cmp(m.limit) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", m.resource, m.limitType, m.limit.String(),
			req.String())
	}
	return nil
}

func limitRequestRatioConstraint(m constraint, requests, limits corev1.ResourceList) error {
	req, requested := requests[m.resource]
	lim, limited := limits[m.resource]
	r, l, most := float64(req.Value()), float64(lim.Value()), float64(m.limit.Value())
	if req.Value() <= math.MaxInt64/1000 && lim.Value() <= math.MaxInt64/1000 {
		r, l = float64(req.MilliValue()), float64(lim.MilliValue())
	}
	switch {
	case !requested || r == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0",
			m.resource, m.limitType, m.limit.String())
	case !limited || l == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0",
			m.resource, m.limitType, m.limit.String())
	}
	observed := l / r
	if m.limit.Value() <= math.MaxInt64/1000 {
		most = float64(m.limit.MilliValue()) / 1000
	}
	if observed > most {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", m.resource,
			m.limitType, m.limit.String(), observed)
	}
	return nil
}
