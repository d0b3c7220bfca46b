package services

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// initIPFamilyFields sets ipFamilies and ipFamilyPolicy from the request, the stored Service and
// the cluster's families, in upstream's order. Errors are API errors.
func (t *allocationTransaction) initIPFamilyFields(s, old *v1.Service) error {
	p := &s.Spec
	if keepsPreferDualStack(s, old) {
		return nil // the cluster may have gained or lost a family: it keeps those that it has
	}
	selectorless := p.ClusterIP == v1.ClusterIPNone && len(p.Selector) == 0
	if p.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			p.IPFamilyPolicy = old.Spec.IPFamilyPolicy
		case selectorless:
			p.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
		default:
			p.IPFamilyPolicy = new(v1.IPFamilyPolicySingleStack)
		}
	}
	if errs := validateClusterIPs(s); len(errs) > 0 {
		return invalid(s, errs...)
	}
	errs := releaseSecondFamily(s, old)
	errs = append(errs, validateSingleStack(p)...)
	if errs = append(errs, t.inferFamilies(p)...); len(errs) > 0 {
		return invalid(s, errs...)
	}
	if selectorless {
		t.initHeadlessFamilies(s)
		return nil
	}
	if errs := t.validateIPFamilies(p); len(errs) > 0 {
		return invalid(s, errs...)
	}
	if len(p.IPFamilies) == 0 {
		p.IPFamilies = []v1.IPFamily{t.pools[0].family}
	}
	if !singleStack(p) && len(p.IPFamilies) == 1 && t.ownPools == 2 {
		p.IPFamilies = append(p.IPFamilies, oppositeFamily(p.IPFamilies[0]))
	}
	return nil
}

func singleStack(p *v1.ServiceSpec) bool {
	return p.IPFamilyPolicy != nil && *p.IPFamilyPolicy == v1.IPFamilyPolicySingleStack
}

// keepsPreferDualStack reports whether an update leaves a Service of PreferDualStack, its addresses
// and its families as they are.
func keepsPreferDualStack(s, old *v1.Service) bool {
	if old == nil || s.Spec.IPFamilyPolicy == nil || *s.Spec.IPFamilyPolicy != v1.IPFamilyPolicyPreferDualStack ||
		old.Spec.IPFamilyPolicy != nil && *old.Spec.IPFamilyPolicy != v1.IPFamilyPolicyPreferDualStack {
		return false
	}
	return s.Spec.Type == old.Spec.Type && slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) &&
		slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// releaseSecondFamily gives up the second address and family of an update to SingleStack that
// leaves them as they were; without that policy they stay.
func releaseSecondFamily(s, old *v1.Service) (errs field.ErrorList) {
	if old == nil {
		return nil
	}
	p, was := &s.Spec, &old.Spec
	if singleStack(p) {
		if len(p.ClusterIPs) > 1 && slices.Equal(p.ClusterIPs, was.ClusterIPs) {
			p.ClusterIPs = p.ClusterIPs[:1]
		}
		if len(p.IPFamilies) > 1 && slices.Equal(p.IPFamilies, was.IPFamilies) {
			p.IPFamilies = p.IPFamilies[:1]
		}
		return nil
	}
	path := field.NewPath("spec", "ipFamilyPolicy")
	if n := len(p.ClusterIPs); n > 0 && n < len(was.ClusterIPs) {
		errs = append(errs, field.Invalid(path, p.IPFamilyPolicy,
			"must be 'SingleStack' to release the secondary cluster IP"))
	}
	if n := len(p.IPFamilies); n > 0 && n < len(was.IPFamilies) {
		errs = append(errs, field.Invalid(path, p.IPFamilyPolicy,
			"must be 'SingleStack' to release the secondary IP family"))
	}
	return errs
}

// validateSingleStack refuses two addresses or families of one stack.
func validateSingleStack(p *v1.ServiceSpec) (errs field.ErrorList) {
	if !singleStack(p) {
		return nil
	}
	for _, list := range []struct {
		name string
		n    int
	}{{"cluster IPs", len(p.ClusterIPs)}, {"IP families", len(p.IPFamilies)}} {
		if list.n == 2 {
			errs = append(errs,
				field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), p.IPFamilyPolicy,
					fmt.Sprintf("must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified",
						list.name)))
		}
	}
	return errs
}

// inferFamilies adds the families of addresses for which none is given.
func (t *allocationTransaction) inferFamilies(p *v1.ServiceSpec) (errs field.ErrorList) {
	for i, ip := range p.ClusterIPs {
		switch family := familyOf(ip); {
		case ip == v1.ClusterIPNone:
			return errs
		case i < len(p.IPFamilies):
		case t.poolOf(family, "") == nil:
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), p.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", family)))
		default:
			p.IPFamilies = append(p.IPFamilies, family)
		}
	}
	return errs
}

// initHeadlessFamilies sets the families of a headless Service without a selector: nothing is
// allocated, so both are allowed in every cluster.
func (t *allocationTransaction) initHeadlessFamilies(s *v1.Service) {
	p := &s.Spec
	if len(p.IPFamilies) == 0 {
		p.IPFamilies = []v1.IPFamily{t.pools[0].family}
	}
	if len(p.IPFamilies) < 2 && !singleStack(p) {
		p.IPFamilies = append(p.IPFamilies, oppositeFamily(p.IPFamilies[0]))
	}
}

// validateIPFamilies refuses families that the cluster does not have.
func (t *allocationTransaction) validateIPFamilies(p *v1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if *p.IPFamilyPolicy == v1.IPFamilyPolicyRequireDualStack && t.ownPools < 2 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), p.IPFamilyPolicy,
			"this cluster is not configured for dual-stack services"))
	}
	for i, f := range p.IPFamilies {
		if t.poolOf(f, "") == nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), f,
				"not configured on this cluster"))
		}
	}
	return errs
}

func familyOf(ip string) v1.IPFamily {
	if a, err := netip.ParseAddr(ip); err == nil && a.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

func oppositeFamily(f v1.IPFamily) v1.IPFamily {
	if f == v1.IPv4Protocol {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}
