package admission_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// In a Pod with a user namespace of its own, root is nobody outside: the standards then ask neither
// for runAsNonRoot nor against runAsUser 0, at any of the eight places. Everywhere else they do.
//
// row: UNS-18
func TestPodSecurityIsRelaxedInUserNamespaces(t *testing.T) {
	fit := func() *corev1.SecurityContext {
		return &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr(false), RunAsNonRoot: ptr(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
	with := func(hostUsers *bool, change func(*corev1.Pod)) *corev1.Pod {
		p := pod()
		p.Spec.HostUsers, p.Spec.SecurityContext = hostUsers, &corev1.PodSecurityContext{}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
		for i := range p.Spec.InitContainers {
			p.Spec.InitContainers[i].SecurityContext = fit()
		}
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].SecurityContext = fit()
		}
		p.Spec.EphemeralContainers[0].SecurityContext = fit()
		change(p)
		return p
	}
	restricted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns",
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	for place, change := range map[string]func(*corev1.Pod){
		"securityContext.runAsNonRoot": func(p *corev1.Pod) {
			p.Spec.SecurityContext.RunAsNonRoot = ptr(false)
		},
		"securityContext.runAsUser": func(p *corev1.Pod) {
			p.Spec.SecurityContext.RunAsUser = ptr(int64(0))
		},
		"containers.securityContext.runAsNonRoot": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.RunAsNonRoot = ptr(false)
		},
		"containers.securityContext.runAsUser": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.RunAsUser = ptr(int64(0))
		},
		"initContainers.securityContext.runAsNonRoot": func(p *corev1.Pod) {
			p.Spec.InitContainers[0].SecurityContext.RunAsNonRoot = ptr(false)
		},
		"initContainers.securityContext.runAsUser": func(p *corev1.Pod) {
			p.Spec.InitContainers[0].SecurityContext.RunAsUser = ptr(int64(0))
		},
		"ephemeralContainers.securityContext.runAsNonRoot": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers[0].SecurityContext.RunAsNonRoot = ptr(false)
		},
		"ephemeralContainers.securityContext.runAsUser": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers[0].SecurityContext.RunAsUser = ptr(int64(0))
		},
	} {
		t.Run(place, func(t *testing.T) {
			podSecurity := plugin(t, "PodSecurity", restricted)
			expect(t, run(t, podSecurity, attributesCase{obj: with(ptr(false), change)}), "")
			for _, hostUsers := range []*bool{nil, ptr(true)} {
				expect(t, run(t, podSecurity, attributesCase{obj: with(hostUsers, change)}),
					`violates PodSecurity "restricted:latest"`)
			}
		})
	}
}
