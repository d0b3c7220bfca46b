package podspec

import v1 "k8s.io/api/core/v1"

func ptr[T any](v T) *T { return &v }

// setIfEmpty sets *p to v if it is the zero value.
func setIfEmpty[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// setDefault sets *p to v if it is nil.
func setDefault[T any](p **T, v T) {
	if *p == nil {
		*p = ptr(v) // &v would cost its memory also where nothing is absent
	}
}

// DefaultPodTemplate sets the defaults of a Pod template: those of the spec, without DefaultPod's.
func DefaultPodTemplate(t *v1.PodTemplateSpec) { DefaultPodSpec(&t.Spec) }

// DefaultPodSpec sets the defaults that Pods and Pod templates share.
func DefaultPodSpec(s *v1.PodSpec) {
	setIfEmpty(&s.DNSPolicy, v1.DNSClusterFirst)
	setIfEmpty(&s.RestartPolicy, v1.RestartPolicyAlways)
	setDefault(&s.TerminationGracePeriodSeconds, int64(v1.DefaultTerminationGracePeriodSeconds))
	setIfEmpty(&s.SchedulerName, v1.DefaultSchedulerName)
	setDefault(&s.SecurityContext, v1.PodSecurityContext{})
	// Two names of one field: the older follows the newer, and is used if only it is set.
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

// DefaultPod sets the defaults that Pods have and templates have not: service links, host ports of
// a host-network Pod, requests from limits.
func DefaultPod(p *v1.Pod) {
	DefaultPodSpec(&p.Spec)
	if p.Spec.HostNetwork {
		visitContainers(&p.Spec, func(c *v1.Container) { defaultHostPorts(c.Ports) })
	}
	setDefault(&p.Spec.EnableServiceLinks, v1.DefaultEnableServiceLinks)
	visitContainers(&p.Spec, func(c *v1.Container) { requestsFromLimits(&c.Resources) })
	DefaultPodLevel(&p.Spec)
}

// visitContainers calls f for init containers, then for containers.
func visitContainers(s *v1.PodSpec, f func(*v1.Container)) {
	for i := range s.InitContainers {
		f(&s.InitContainers[i])
	}
	for i := range s.Containers {
		f(&s.Containers[i])
	}
}

// defaultHostPorts sets hostPort to containerPort in the ports of a host-network Pod.
func defaultHostPorts(ports []v1.ContainerPort) {
	for i := range ports {
		if ports[i].HostPort == 0 {
			ports[i].HostPort = ports[i].ContainerPort
		}
	}
}

// requestsFromLimits sets each missing request to the limit.
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

// RoundResources rounds quantities up to whole milli-units, the finest that are stored.
func RoundResources(list v1.ResourceList) {
	for name, q := range list {
		const milliScale = -3
		q.RoundUp(milliScale)
		list[name] = q
	}
}

// canonicalResources applies RoundResources to all resource lists of a spec.
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
