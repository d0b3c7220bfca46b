package services

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateClusterIPs validates clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy together.
func validateClusterIPs(s *v1.Service) field.ErrorList {
	if s.Spec.Type == v1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	p, path := &s.Spec, field.NewPath("spec")
	ips := path.Child("clusterIPs")
	switch {
	case p.ClusterIP == "" && len(p.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(ips, p.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case p.ClusterIP != "" && len(p.ClusterIPs) == 0:
		errs = append(errs, field.Required(ips, ""))
	case p.ClusterIP != "" && p.ClusterIPs[0] != p.ClusterIP:
		errs = append(errs, field.Invalid(ips, p.ClusterIPs, "first value must match `clusterIP`"))
	}
	errs = append(errs, validateFamilies(p, path)...)
	broken := false
	for i, ip := range p.ClusterIPs {
		if i == 0 && ip == v1.ClusterIPNone {
			if len(p.ClusterIPs) > 1 {
				broken = true
				errs = append(errs, field.Invalid(ips, p.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		if e := validateLegacyIP(ips.Index(i), ip, nil); len(e) > 0 {
			broken, errs = true, append(errs, e...)
		}
	}
	if len(p.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(ips, p.ClusterIPs, "may only hold up to 2 values"))
	}
	if broken {
		return errs
	}
	if len(p.ClusterIPs) == 2 && familyOf(p.ClusterIPs[0]) == familyOf(p.ClusterIPs[1]) {
		errs = append(errs, field.Invalid(ips, p.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	if headless(s) || len(errs) > 0 {
		return errs
	}
	for i, ip := range p.ClusterIPs {
		if i < len(p.IPFamilies) && familyOf(ip) != p.IPFamilies[i] {
			errs = append(errs,
				field.Invalid(ips.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`",
					p.IPFamilies[i], i)))
		}
	}
	return errs
}

func validateFamilies(p *v1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[v1.IPFamily]bool{}
	for i, f := range p.IPFamilies {
		at := path.Child("ipFamilies").Index(i)
		if f != v1.IPv4Protocol && f != v1.IPv6Protocol {
			errs = append(errs, field.NotSupported(at, f, []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}))
		}
		if seen[f] {
			errs = append(errs, field.Duplicate(at, f))
		}
		seen[f] = true
	}
	if policy := p.IPFamilyPolicy; policy != nil {
		switch *policy {
		case v1.IPFamilyPolicySingleStack, v1.IPFamilyPolicyPreferDualStack, v1.IPFamilyPolicyRequireDualStack:
		default:
			errs = append(errs, field.NotSupported(path.Child("ipFamilyPolicy"), policy,
				[]v1.IPFamilyPolicy{v1.IPFamilyPolicyPreferDualStack, v1.IPFamilyPolicyRequireDualStack,
					v1.IPFamilyPolicySingleStack}))
		}
	}
	return errs
}

// ValidateUpdate validates an update: allocated addresses are immutable.
func ValidateUpdate(s, old *v1.Service) field.ErrorList {
	errs := validateClusterIPsUnchanged(s, old)
	errs = append(errs, validateFamiliesUnchanged(s, old)...)
	if old.Spec.Type == v1.ServiceTypeLoadBalancer && s.Spec.Type == v1.ServiceTypeLoadBalancer &&
		!equalPtr(s.Spec.LoadBalancerClass, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "loadBalancerClass"), s.Spec.LoadBalancerClass,
			"may not change once set"))
	}
	errs = append(errs, validateLoadBalancerClass(&s.Spec)...) // Validate says it again: it is told once
	if needsHealthPort(s) && needsHealthPort(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, Validate(s, old)...)
}

func validateClusterIPsUnchanged(s, old *v1.Service) field.ErrorList {
	if !needsClusterIP(s) || !needsClusterIP(old) {
		return nil
	}
	var errs field.ErrorList
	path, now, previous := field.NewPath("spec", "clusterIPs"), s.Spec.ClusterIPs, old.Spec.ClusterIPs
	changed := func(i int) {
		errs = append(errs, field.Invalid(path.Index(i), now, "may not change once set"))
	}
	switch {
	case len(previous) == len(now):
		for i := range previous {
			if previous[i] != now[i] {
				changed(i)
			}
		}
	case len(now) == 0:
		errs = append(errs, field.Invalid(path.Index(0), now, "primary clusterIP can not be unset"))
	case len(previous) > 0 && previous[0] != now[0]:
		changed(0)
	}
	if len(previous) > len(now) && len(now) == 1 &&
		(s.Spec.IPFamilyPolicy == nil || *s.Spec.IPFamilyPolicy != v1.IPFamilyPolicySingleStack) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), s.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

// validateFamiliesUnchanged checks that families stay, except that a second one may be added, or
// removed with its address. Headless Services may change theirs.
func validateFamiliesUnchanged(s, old *v1.Service) field.ErrorList {
	if !needsClusterIP(s) || !needsClusterIP(old) || headless(s) || headless(old) {
		return nil
	}
	var errs field.ErrorList
	path, now, previous := field.NewPath("spec", "ipFamilies"), s.Spec.IPFamilies, old.Spec.IPFamilies
	if len(previous) == len(now) {
		for i := range previous {
			if previous[i] != now[i] {
				errs = append(errs, field.Invalid(path.Index(0), now, "may not change once set"))
			}
		}
		return errs
	}
	if len(previous) > len(now) && len(s.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(path.Index(0), now, "primary ipFamily can not be unset"))
	}
	if len(now) > 0 && len(previous) > 0 && previous[0] != now[0] {
		// Upstream shows the addresses here, not the families.
		errs = append(errs, field.Invalid(path.Index(0), s.Spec.ClusterIPs, "may not change once set"))
	}
	if policy := s.Spec.IPFamilyPolicy; len(previous) > len(now) && len(now) == 1 &&
		(policy == nil || *policy != v1.IPFamilyPolicySingleStack) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), policy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}

// validateStatus validates status.loadBalancer.
func validateStatus(s *v1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "loadBalancer", "ingress")
	ingress := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != v1.ServiceTypeLoadBalancer && len(ingress) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	for i, in := range ingress {
		at := path.Index(i)
		if in.IP != "" {
			errs = append(errs, validateLegacyIP(at.Child("ip"), in.IP, nil)...)
		}
		switch {
		case in.IP != "" && in.IPMode == nil:
			errs = append(errs, field.Required(at.Child("ipMode"), "must be specified when `ip` is set"))
		case in.IP == "" && in.IPMode != nil:
			errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		case in.IPMode != nil && *in.IPMode != v1.LoadBalancerIPModeProxy && *in.IPMode != v1.LoadBalancerIPModeVIP:
			errs = append(errs, field.NotSupported(at.Child("ipMode"), in.IPMode,
				[]v1.LoadBalancerIPMode{v1.LoadBalancerIPModeProxy, v1.LoadBalancerIPModeVIP}))
		}
		if in.Hostname == "" {
			continue
		}
		for _, msg := range utilvalidation.IsDNS1123Subdomain(in.Hostname) {
			errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname, msg))
		}
		if isIP(in.Hostname) {
			errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname,
				"must be a DNS name, not an IP address"))
		}
	}
	return errs
}

func isIP(text string) bool {
	return len(utilvalidation.IsValidIPForLegacyField(field.NewPath(""), text, false, nil)) == 0
}
