package admit_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
)

func TestSecurity(t *testing.T) {
	ok, strict := true, v1.SupplementalGroupsPolicyStrict
	profile := func(kind v1.AppArmorProfileType) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: kind}}
		}
	}
	own := func(p *v1.Pod) {
		p.Spec.Containers = []v1.Container{
			{Name: "c", SecurityContext: &v1.SecurityContext{
				AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost}}}}
	}
	only := func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: &strict} }
	able := node()
	able.Status.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &ok}
	const noAppArmor = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
	for _, c := range []struct {
		name         string
		in           admit.In
		code, detail string
	}{
		{"profile, host has AppArmor", admit.In{Pod: pod(profile(v1.AppArmorProfileTypeRuntimeDefault)),
			AppArmor: true}, "", ""},
		{"profile of the Pod, host has none", admit.In{Pod: pod(profile(v1.AppArmorProfileTypeRuntimeDefault))},
			"AppArmor", noAppArmor},
		{"profile of a container, host has none", admit.In{Pod: pod(own)}, "AppArmor", noAppArmor},
		{"unconfined", admit.In{Pod: pod(profile(v1.AppArmorProfileTypeUnconfined))}, "", ""},
		{"no profile", admit.In{Pod: pod(nil)}, "", ""},
		{"strict groups, runtime can", admit.In{Pod: pod(only), Node: able}, "", ""},
		{"strict groups, runtime cannot", admit.In{Pod: pod(only), Node: node()},
			"SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"},
	} {
		refusal := admit.Admit(c.in)
		switch {
		case c.code == "" && refusal != nil:
			t.Errorf("%s: got refusal %v, want none", c.name, refusal)
		case c.code != "" && (refusal == nil || string(refusal.Code) != c.code || refusal.Detail != c.detail):
			t.Errorf("%s: got %v, want refusal.Code %v and Detail %v", c.name, refusal, c.code, c.detail)
		}
	}
}
