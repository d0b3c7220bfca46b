package services

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Default sets the defaults of a Service, except for what is allocated.
func Default(s *v1.Service) {
	p := &s.Spec
	if p.SessionAffinity == "" {
		p.SessionAffinity = v1.ServiceAffinityNone
	}
	switch p.SessionAffinity {
	case v1.ServiceAffinityNone:
		p.SessionAffinityConfig = nil
	case v1.ServiceAffinityClientIP:
		if c := p.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			p.SessionAffinityConfig = &v1.SessionAffinityConfig{
				ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(v1.DefaultClientIPServiceAffinitySeconds)}}
		}
	}
	if p.Type == "" {
		p.Type = v1.ServiceTypeClusterIP
	}
	for i := range p.Ports {
		port := &p.Ports[i]
		if port.Protocol == "" {
			port.Protocol = v1.ProtocolTCP
		}
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if externallyAccessible(s) && p.ExternalTrafficPolicy == "" {
		p.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyCluster
	}
	if p.InternalTrafficPolicy == nil && needsClusterIP(s) {
		p.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyCluster)
	}
	if p.Type == v1.ServiceTypeLoadBalancer {
		if p.AllocateLoadBalancerNodePorts == nil {
			p.AllocateLoadBalancerNodePorts = new(true)
		}
		for i := range s.Status.LoadBalancer.Ingress {
			if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" && in.IPMode == nil {
				in.IPMode = new(v1.LoadBalancerIPModeVIP)
			}
		}
	}
}

// needsClusterIP reports whether the type has a cluster IP ("None" counts).
func needsClusterIP(s *v1.Service) bool {
	return s.Spec.Type != v1.ServiceTypeExternalName
}

// dropInternalTrafficPolicy removes a field that an external name has no use for; it is validated
// before.
func dropInternalTrafficPolicy(s *v1.Service) {
	if !needsClusterIP(s) {
		s.Spec.InternalTrafficPolicy = nil
	}
}

func needsNodePort(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeNodePort || s.Spec.Type == v1.ServiceTypeLoadBalancer
}

// wantsNodePort reports whether ports without a node port get one.
func wantsNodePort(s *v1.Service) bool {
	if s.Spec.Type == v1.ServiceTypeLoadBalancer {
		return s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts
	}
	return s.Spec.Type == v1.ServiceTypeNodePort
}

func needsHealthPort(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeLoadBalancer &&
		s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
}

// externallyAccessible reports whether external traffic can reach the Service, so that
// externalTrafficPolicy applies.
func externallyAccessible(s *v1.Service) bool {
	return needsNodePort(s) || s.Spec.Type == v1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

func headless(s *v1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == v1.ClusterIPNone
}
