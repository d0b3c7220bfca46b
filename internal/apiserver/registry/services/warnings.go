package services

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// warn returns the warnings about deprecated fields and fields without effect, in upstream's order.
func warn(s *v1.Service) []string {
	var out []string
	spec := field.NewPath("spec")
	if _, ok := s.Annotations[v1.DeprecatedAnnotationTopologyAwareHints]; ok {
		out = append(out, fmt.Sprintf("annotation %s is deprecated, please use %s instead",
			v1.DeprecatedAnnotationTopologyAwareHints, v1.AnnotationTopologyMode))
	}
	if ip := s.Spec.ClusterIP; ip != "" && ip != v1.ClusterIPNone {
		out = append(out, legacyAddressWarnings(s.Spec.ClusterIPs, spec.Child("clusterIPs"))...)
	}
	headless := s.Spec.Type == v1.ServiceTypeClusterIP && s.Spec.ClusterIP == v1.ClusterIPNone
	if headless {
		if s.Spec.LoadBalancerIP != "" {
			out = append(out, "spec.loadBalancerIP is ignored for headless services")
		}
		if len(s.Spec.ExternalIPs) > 0 {
			out = append(out, "spec.externalIPs is ignored for headless services")
		}
		if s.Spec.SessionAffinity != v1.ServiceAffinityNone {
			out = append(out, "spec.SessionAffinity is ignored for headless services")
		}
	}
	out = append(out, legacyAddressWarnings(s.Spec.ExternalIPs, spec.Child("externalIPs"))...)
	if len(s.Spec.ExternalIPs) > 0 && !headless && s.Spec.Type != v1.ServiceTypeExternalName {
		out = append(out, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if s.Spec.LoadBalancerIP != "" {
		out = append(out, utilvalidation.GetWarningsForIP(spec.Child("loadBalancerIP"), s.Spec.LoadBalancerIP)...)
	}
	for i, r := range s.Spec.LoadBalancerSourceRanges {
		out = append(out, utilvalidation.GetWarningsForCIDR(spec.Child("loadBalancerSourceRanges").Index(i), r)...)
	}
	named := s.Spec.Type == v1.ServiceTypeExternalName
	if named && len(s.Spec.ExternalIPs) > 0 {
		out = append(out, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", v1.ServiceTypeExternalName))
	}
	if !named && s.Spec.ExternalName != "" {
		out = append(out, fmt.Sprintf("spec.externalName is ignored when spec.type is not %q",
			v1.ServiceTypeExternalName))
	}
	if d := s.Spec.TrafficDistribution; d != nil && *d == v1.ServiceTrafficDistributionPreferClose {
		out = append(out, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q",
			v1.ServiceTrafficDistributionPreferClose, v1.ServiceTrafficDistributionPreferSameZone))
	}
	return out
}

// legacyAddressWarnings returns warnings about deprecated forms of addresses.
func legacyAddressWarnings(list []string, path *field.Path) []string {
	var out []string
	for i, ip := range list {
		out = append(out, utilvalidation.GetWarningsForIP(path.Index(i), ip)...)
	}
	return out
}
