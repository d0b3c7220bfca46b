package podspec

import v1 "k8s.io/api/core/v1"

func ptr[T any](v T) *T { return &v }

// setIfEmpty fills an empty value.
func setIfEmpty[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// setDefault fills an absent value.
func setDefault[T any](p **T, v T) {
	if *p == nil {
		*p = ptr(v) // &v would cost its memory also where nothing is absent
	}
}

// DefaultPodTemplate fills in a Pod template as upstream does: the spec alone, no request
// arithmetic, which belongs to Pods.
func DefaultPodTemplate(t *v1.PodTemplateSpec) { DefaultPodSpec(&t.Spec) }

// DefaultPodSpec fills in what a Pod spec leaves open, in a Pod and in a Pod template alike.
func DefaultPodSpec(s *v1.PodSpec) {
	setIfEmpty(&s.DNSPolicy, v1.DNSClusterFirst)
	setIfEmpty(&s.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&s.TerminationGracePeriodSeconds, int64(v1.DefaultTerminationGracePeriodSeconds))
	setIfEmpty(&s.SchedulerName, v1.DefaultSchedulerName)
	setDefault(&s.SecurityContext, v1.PodSecurityContext{})
	// The two names of one field: the older follows the newer, and stands in for it when alone.
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
	visitContainers(s, defaultContainer)
	for i := range s.EphemeralContainers {
		c := v1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		defaultContainer(&c)
		s.EphemeralContainers[i].EphemeralContainerCommon = v1.EphemeralContainerCommon(c)
	}
	for i := range s.Volumes {
		DefaultVolume(&s.Volumes[i])
	}
	canonicalResources(s)
}

// DefaultPod fills in what belongs to a Pod and not to a template: service links, host ports of a
// host-network Pod, requests from limits.
func DefaultPod(p *v1.Pod) {
	DefaultPodSpec(&p.Spec)
	if p.Spec.HostNetwork {
		visitContainers(&p.Spec, func(c *v1.Container) { defaultHostPorts(c.Ports) })
	}
	setDefault(&p.Spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	visitContainers(&p.Spec, func(c *v1.Container) { requestsFromLimits(&c.Resources) })
	defaultPodLevel(&p.Spec)
}

// visitContainers visits init and app containers.
func visitContainers(s *v1.PodSpec, f func(*v1.Container)) {
	for i := range s.InitContainers {
		f(&s.InitContainers[i])
	}
	for i := range s.Containers {
		f(&s.Containers[i])
	}
}

// defaultHostPorts makes each port of a host-network Pod a host port.
func defaultHostPorts(ports []v1.ContainerPort) {
	for i := range ports {
		if ports[i].HostPort == 0 {
			ports[i].HostPort = ports[i].ContainerPort
		}
	}
}

// requestsFromLimits copies each limit without a request.
func requestsFromLimits(r *v1.ResourceRequirements) {
	for name, q := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			if r.Requests == nil {
				r.Requests = v1.ResourceList{}
			}
			r.Requests[name] = q.DeepCopy()
		}
	}
}

// RoundResources rounds quantities up to whole milli units: anything finer is not kept.
func RoundResources(list v1.ResourceList) {
	for name, q := range list {
		const milliScale = -3
		q.RoundUp(milliScale)
		list[name] = q
	}
}

func canonicalResources(s *v1.PodSpec) {
	RoundResources(s.Overhead)
	visitContainers(s, func(c *v1.Container) {
		RoundResources(c.Resources.Limits)
		RoundResources(c.Resources.Requests)
	})
	if s.Resources != nil {
		RoundResources(s.Resources.Limits)
		RoundResources(s.Resources.Requests)
	}
}
