package rules

import (
	"fmt"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// PoliciesByPod has exactly the Pods that have rules, with the policies that select them.
func TestPoliciesByPodMatchTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := In{Namespaces: map[string]map[string]string{"x": nil, "y": nil}}
		letters := rapid.SampledFrom([]string{"a", "b"})
		for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
			p := &networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "ns"),
					Name: fmt.Sprint("p", i)}}
			p.Spec.PodSelector.MatchLabels = map[string]string{"app": letters.Draw(t, "app")}
			p.Spec.PolicyTypes = rapid.SliceOfNDistinct(
				rapid.SampledFrom([]networkingv1.PolicyType{"Ingress", "Egress"}), 0, 2, rapid.ID).Draw(t, "types")
			in.Policies = append(in.Policies, p)
		}
		for i := range 4 {
			in.Pods = append(in.Pods, Pod{Namespace: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "of"),
				Name: fmt.Sprint("pod", i), UID: fmt.Sprint(i), Local: rapid.Bool().Draw(t, "here"),
				Labels: map[string]string{"app": letters.Draw(t, "label")},
				IPs:    []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})}})
		}
		state, over := Build(in), PoliciesByPod(in)
		for _, p := range in.Pods {
			r := over[PodID{p.Namespace, p.Name, p.UID}]
			for m, names := range map[string][]string{Ingress4: r.Ingress, Egress4: r.Egress} {
				if _, has := state.Pods[m][p.IPs[0].String()]; has != (len(names) > 0) {
					t.Fatalf("%s %s: rules %v, got %v, want %v", p.Name, m, has, names, (len(names) > 0))
				}
			}
			for _, policy := range in.Policies {
				listed := false
				for _, n := range append(append([]string(nil), r.Ingress...), r.Egress...) {
					listed = listed || n == policy.Name
				}
				if want := p.Local && policy.Namespace == p.Namespace &&
					policy.Spec.PodSelector.MatchLabels["app"] == p.Labels["app"]; listed != want {
					t.Fatalf("%s is listed as selected by %s: %v, want %v", p.Name, policy.Name, listed, want)
				}
			}
		}
	})
}
