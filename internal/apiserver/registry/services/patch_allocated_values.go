package services

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// prepareAllocation completes a Service before allocation: it keeps allocated values that the
// request leaves out, and syncs clusterIP with clusterIPs. The kind's rules run later.
func prepareAllocation(s, old *v1.Service) {
	if old != nil {
		patchAllocatedValues(s, old)
	}
	normalizeClusterIPs(s, old)
}

// patchAllocatedValues copies addresses and ports that the request leaves out from the stored
// Service, so that a PUT of a manifest does not lose them.
func patchAllocatedValues(s, old *v1.Service) {
	if needsClusterIP(old) && needsClusterIP(s) {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP == old.Spec.ClusterIP {
			s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if needsNodePort(old) && needsNodePort(s) {
		byName, used := map[string]int32{}, map[int32]bool{}
		for _, p := range old.Spec.Ports {
			byName[p.Name] = p.NodePort
		}
		for _, p := range s.Spec.Ports {
			used[p.NodePort] = true
		}
		for i := range s.Spec.Ports {
			if p := &s.Spec.Ports[i]; p.NodePort == 0 && !used[byName[p.Name]] {
				p.NodePort = byName[p.Name]
			}
		}
	}
	if needsHealthPort(old) && needsHealthPort(s) && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// normalizeClusterIPs syncs clusterIP and clusterIPs for clients that set only one of them.
func normalizeClusterIPs(s, old *v1.Service) {
	p := &s.Spec
	if old == nil {
		if p.ClusterIP != "" && len(p.ClusterIPs) == 0 {
			p.ClusterIPs = []string{p.ClusterIP}
		}
		return
	}
	sameList := slices.Equal(p.ClusterIPs, old.Spec.ClusterIPs)
	switch {
	case old.Spec.ClusterIP != "" && p.ClusterIP == "" && sameList:
		p.ClusterIPs = nil
	case p.ClusterIP != "" && p.ClusterIP != old.Spec.ClusterIP && sameList:
		p.ClusterIPs = []string{p.ClusterIP}
	}
}

// dropTypeDependentFields clears fields that the old type needed and the new one does not, unless
// the request changes them.
func dropTypeDependentFields(s, old *v1.Service) {
	p, previous := &s.Spec, &old.Spec
	if needsClusterIP(old) && !needsClusterIP(s) {
		if p.ClusterIP == previous.ClusterIP && slices.Equal(p.ClusterIPs, previous.ClusterIPs) {
			p.ClusterIP, p.ClusterIPs = "", nil
		}
		if slices.Equal(p.IPFamilies, previous.IPFamilies) {
			p.IPFamilies = nil
		}
		if equalPtr(p.IPFamilyPolicy, previous.IPFamilyPolicy) {
			p.IPFamilyPolicy = nil
		}
		if equalPtr(p.InternalTrafficPolicy, previous.InternalTrafficPolicy) {
			p.InternalTrafficPolicy = nil
		}
	}
	if needsNodePort(old) && !needsNodePort(s) && sameNodePorts(s, old) {
		for i := range p.Ports {
			p.Ports[i].NodePort = 0
		}
	}
	if needsHealthPort(old) && !needsHealthPort(s) && p.HealthCheckNodePort == previous.HealthCheckNodePort {
		p.HealthCheckNodePort = 0
	}
	if previous.Type == v1.ServiceTypeLoadBalancer && p.Type != v1.ServiceTypeLoadBalancer {
		if equalPtr(p.AllocateLoadBalancerNodePorts, previous.AllocateLoadBalancerNodePorts) {
			p.AllocateLoadBalancerNodePorts = nil
		}
		if equalPtr(p.LoadBalancerClass, previous.LoadBalancerClass) {
			p.LoadBalancerClass = nil
		}
	}
	if externallyAccessible(old) && !externallyAccessible(s) &&
		p.ExternalTrafficPolicy == previous.ExternalTrafficPolicy {
		p.ExternalTrafficPolicy = ""
	}
	if p.Type != v1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = v1.LoadBalancerStatus{}
	}
}

func equalPtr[T any](a, b *T) bool { return apiequality.Semantic.DeepEqual(a, b) }

// sameNodePorts reports whether no node port changes.
func sameNodePorts(s, old *v1.Service) bool {
	set := func(x *v1.Service) map[int32]bool {
		m := map[int32]bool{}
		for _, p := range x.Spec.Ports {
			if p.NodePort != 0 {
				m[p.NodePort] = true
			}
		}
		return m
	}
	return apiequality.Semantic.DeepEqual(set(s), set(old))
}
