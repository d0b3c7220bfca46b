package services

import (
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// initIPFamilyFields sets ipFamilies and ipFamilyPolicy from the request, the stored Service and
// the cluster's families. Errors are API errors.
func (t *allocationTransaction) initIPFamilyFields(s, old *v1.Service) error {
	p := &s.Spec
	if old != nil && needsClusterIP(old) {
		keepStoredFamilies(s, old)
	}
	if errs := validateClusterIPs(s); len(errs) > 0 {
		return invalid(s, errs...)
	}
	for i, ip := range p.ClusterIPs {
		if ip == v1.ClusterIPNone {
			break
		}
		if i >= len(p.IPFamilies) {
			p.IPFamilies = append(p.IPFamilies, familyOf(ip))
		}
	}
	if p.IPFamilyPolicy == nil && len(p.IPFamilies) == 2 {
		p.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
	}
	if headless(s) && len(p.Selector) == 0 {
		t.initHeadlessFamilies(s)
		return nil
	}
	if errs := t.validateIPFamilies(s); len(errs) > 0 {
		return invalid(s, errs...)
	}
	if p.IPFamilyPolicy == nil {
		p.IPFamilyPolicy = new(v1.IPFamilyPolicySingleStack)
	}
	if len(p.IPFamilies) == 0 {
		p.IPFamilies = []v1.IPFamily{t.pools[0].family}
	}
	switch {
	case *p.IPFamilyPolicy == v1.IPFamilyPolicySingleStack:
	case len(p.IPFamilies) == 1 && t.ownPools == 2:
		p.IPFamilies = append(p.IPFamilies, oppositeFamily(p.IPFamilies[0]))
	}
	return nil
}

// keepStoredFamilies copies the stored families that an update leaves out; a change to SingleStack
// alone drops the second.
func keepStoredFamilies(s, old *v1.Service) {
	p := &s.Spec
	if p.IPFamilyPolicy == nil {
		p.IPFamilyPolicy = old.Spec.IPFamilyPolicy
	}
	if len(p.IPFamilies) == 0 {
		p.IPFamilies = append([]v1.IPFamily(nil), old.Spec.IPFamilies...)
	}
	if p.IPFamilyPolicy != nil && *p.IPFamilyPolicy == v1.IPFamilyPolicySingleStack && old.Spec.IPFamilyPolicy != nil &&
		*old.Spec.IPFamilyPolicy != v1.IPFamilyPolicySingleStack {
		if len(p.ClusterIPs) == 2 && len(old.Spec.ClusterIPs) == 2 && p.ClusterIPs[1] == old.Spec.ClusterIPs[1] {
			p.ClusterIPs = p.ClusterIPs[:1]
		}
		if len(p.IPFamilies) == 2 && len(old.Spec.IPFamilies) == 2 && p.IPFamilies[1] == old.Spec.IPFamilies[1] {
			p.IPFamilies = p.IPFamilies[:1]
		}
	}
}

// initHeadlessFamilies sets the families of a headless Service without a selector: nothing is
// allocated, so both are allowed in every cluster.
func (t *allocationTransaction) initHeadlessFamilies(s *v1.Service) {
	p := &s.Spec
	if p.IPFamilyPolicy == nil {
		p.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
	}
	if len(p.IPFamilies) == 0 {
		p.IPFamilies = []v1.IPFamily{t.pools[0].family}
	}
	if len(p.IPFamilies) < 2 && *p.IPFamilyPolicy != v1.IPFamilyPolicySingleStack {
		p.IPFamilies = append(p.IPFamilies, oppositeFamily(p.IPFamilies[0]))
	}
}

func (t *allocationTransaction) validateIPFamilies(s *v1.Service) field.ErrorList {
	var errs field.ErrorList
	p, path := &s.Spec, field.NewPath("spec", "ipFamilyPolicy")
	if p.IPFamilyPolicy != nil && *p.IPFamilyPolicy == v1.IPFamilyPolicySingleStack {
		for _, list := range []struct {
			name string
			n    int
		}{{"cluster IPs", len(p.ClusterIPs)}, {"IP families", len(p.IPFamilies)}} {
			if list.n == 2 {
				errs = append(errs,
					field.Invalid(path, p.IPFamilyPolicy,
						fmt.Sprintf("must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified",
							list.name)))
			}
		}
	}
	if len(errs) > 0 {
		return errs
	}
	if p.IPFamilyPolicy != nil && *p.IPFamilyPolicy == v1.IPFamilyPolicyRequireDualStack && t.ownPools < 2 {
		errs = append(errs,
			field.Invalid(path, p.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
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
