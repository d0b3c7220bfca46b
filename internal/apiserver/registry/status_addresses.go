package registry

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// warnStatusAddresses returns the warnings about unusual forms of addresses in a status: all that
// upstream warns about there.
func warnStatusAddresses(obj runtime.Object) []string {
	var out []string
	add := func(path *field.Path, ip string) {
		if ip != "" {
			out = append(out, validation.GetWarningsForIP(path, ip)...)
		}
	}
	status := field.NewPath("status")
	balanced := status.Child("loadBalancer", "ingress")
	switch o := obj.(type) {
	case *corev1.Pod:
		for i, a := range o.Status.PodIPs {
			add(status.Child("podIPs").Index(i).Child("ip"), a.IP)
		}
		for i, a := range o.Status.HostIPs {
			add(status.Child("hostIPs").Index(i).Child("ip"), a.IP)
		}
	case *corev1.Service:
		for i, a := range o.Status.LoadBalancer.Ingress {
			add(balanced.Index(i), a.IP)
		}
	case *networkingv1.Ingress:
		for i, a := range o.Status.LoadBalancer.Ingress {
			add(balanced.Index(i), a.IP)
		}
	}
	return out
}
