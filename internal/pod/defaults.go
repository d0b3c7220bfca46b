package pod

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// What a spec leaves out, as the kubelet and all who explain it read it. The API server writes most
// of these defaults into what it stores; static Pods and files that nobody has sent yet lack them.

// GracePeriod is how long a Pod's containers have to stop: the spec's
// terminationGracePeriodSeconds, else 30 s.
func GracePeriod(s *v1.PodSpec) time.Duration {
	if n := s.TerminationGracePeriodSeconds; n != nil {
		return Seconds(*n)
	}
	return v1.DefaultTerminationGracePeriodSeconds * time.Second
}

// DeletionGracePeriod is how long the containers of a Pod that is being deleted have to stop: what
// the deletion says, else GracePeriod.
func DeletionGracePeriod(p *v1.Pod) time.Duration {
	if n := p.DeletionGracePeriodSeconds; n != nil {
		return Seconds(*n)
	}
	return GracePeriod(&p.Spec)
}

// ProbeGracePeriod is how long a container has to stop after the probe, its liveness or startup
// probe, has failed for good: the probe's own terminationGracePeriodSeconds, else the Pod's, else
// 30 s. p may be nil.
func ProbeGracePeriod(s *v1.PodSpec, p *v1.Probe) time.Duration {
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		return Seconds(*p.TerminationGracePeriodSeconds)
	}
	return GracePeriod(s)
}

// RestartPolicy is that of one of the spec's containers, its rules aside: its own, else the Pod's,
// else Always.
func RestartPolicy(s *v1.PodSpec, c *v1.Container) v1.RestartPolicy {
	switch {
	case c.RestartPolicy != nil:
		return v1.RestartPolicy(*c.RestartPolicy)
	case s.RestartPolicy != "":
		return s.RestartPolicy
	}
	return v1.RestartPolicyAlways
}

// DNSPolicy is whom the Pod really asks: ClusterFirst means Default on the host's network, and is
// the default itself.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
func DNSPolicy(s *v1.PodSpec) v1.DNSPolicy {
	switch {
	case s.DNSPolicy == "":
		return v1.DNSClusterFirst
	case s.DNSPolicy == v1.DNSClusterFirst && s.HostNetwork:
		return v1.DNSDefault
	}
	return s.DNSPolicy
}

// Seconds is so many seconds of a field of the API; those of more than 292 years are 292 years,
// which a Duration can hold.
func Seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(max(-most, min(n, most))) * time.Second
}
