package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// services evaluates Services: their number, node ports and load balancers.
func services(list func(schema.GroupResource) generic.ListFuncByNamespace) quota.Evaluator {
	gr := schema.GroupResource{Resource: "services"}
	return &evaluator[*corev1.Service]{
		resource: gr, list: list(gr),
		operations: map[string][]admission.Operation{"": {admission.Create, admission.Update}},
		counts: func(n corev1.ResourceName) bool {
			return n == corev1.ResourceServices || n == corev1.ResourceServicesNodePorts ||
				n == corev1.ResourceServicesLoadBalancers
		},
		usage: serviceUsage,
	}
}

// serviceUsage counts a node port for each port of a Service that gets one, also those allocated to
// a load balancer that does not want any.
func serviceUsage(s *corev1.Service) corev1.ResourceList {
	ports, balancers := 0, 0
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(s.Spec.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers, ports = 1, len(s.Spec.Ports)
		if a := s.Spec.AllocateLoadBalancerNodePorts; a != nil && !*a {
			ports = 0
			for _, p := range s.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	}
	n := func(i int) resource.Quantity { return *resource.NewQuantity(int64(i), resource.DecimalSI) }
	return corev1.ResourceList{
		"count/services": n(1), corev1.ResourceServices: n(1), corev1.ResourceServicesNodePorts: n(ports),
		corev1.ResourceServicesLoadBalancers: n(balancers),
	}
}
