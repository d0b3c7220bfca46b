package pod_test

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// row: TRM-01
func TestGracePeriod(t *testing.T) {
	own := &v1.Probe{TerminationGracePeriodSeconds: new(int64(5))}
	set := &v1.PodSpec{TerminationGracePeriodSeconds: new(int64(60))}
	for name, c := range map[string]struct {
		spec  *v1.PodSpec
		probe *v1.Probe
		want  time.Duration
	}{
		"neither says":              {&v1.PodSpec{}, &v1.Probe{}, 30 * time.Second},
		"the Pod says":              {set, &v1.Probe{}, time.Minute},
		"the probe says":            {set, own, 5 * time.Second},
		"there is no probe":         {set, nil, time.Minute},
		"the Pod says that none is": {&v1.PodSpec{TerminationGracePeriodSeconds: new(int64)}, nil, 0},
		"the probe alone says":      {&v1.PodSpec{}, own, 5 * time.Second},
		"more than a Duration has": {&v1.PodSpec{TerminationGracePeriodSeconds: new(int64(math.MaxInt64))}, nil,
			math.MaxInt64 / time.Second * time.Second},
	} {
		if got := pod.ProbeGracePeriod(c.spec, c.probe); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// row: RST-01
func TestRestartPolicy(t *testing.T) {
	never := &v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}
	own := &v1.Container{RestartPolicy: new(v1.ContainerRestartPolicyOnFailure)}
	for name, c := range map[string]struct {
		spec      *v1.PodSpec
		container *v1.Container
		want      v1.RestartPolicy
	}{
		"neither says":       {&v1.PodSpec{}, &v1.Container{}, v1.RestartPolicyAlways},
		"the Pod says":       {never, &v1.Container{}, v1.RestartPolicyNever},
		"the container says": {never, own, v1.RestartPolicyOnFailure},
	} {
		if got := pod.RestartPolicy(c.spec, c.container); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// row: CRI-11
func TestDNSPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		spec v1.PodSpec
		want v1.DNSPolicy
	}{
		"unset":                          {v1.PodSpec{}, v1.DNSClusterFirst},
		"the cluster's":                  {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst}, v1.DNSClusterFirst},
		"the cluster's, host network":    {v1.PodSpec{DNSPolicy: v1.DNSClusterFirst, HostNetwork: true}, v1.DNSDefault},
		"as told, with the host network": {v1.PodSpec{DNSPolicy: v1.DNSNone, HostNetwork: true}, v1.DNSNone},
	} {
		if got := pod.DNSPolicy(&c.spec); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
