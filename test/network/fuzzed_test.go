package network

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func sameLines(a, b string) bool {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// fuzzed is a policy with every field made of what it is given.
func fuzzed(cidr, except, key, value, named, proto string, port, end int32) *networkingv1.NetworkPolicy {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{key: value},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOperator(proto),
			Values: []string{value}}}}
	some := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	protocol, number, text := v1.Protocol(proto), intstr.FromInt32(port), intstr.FromString(named)
	peers := []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: []string{except, cidr}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: except}},
		{PodSelector: selector}, {NamespaceSelector: &some}, {NamespaceSelector: selector, PodSelector: &some}, {},
	}
	ports := []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &number, EndPort: &end}, {Port: &text},
		{Protocol: &protocol, Port: &text}, {Port: &number}, {EndPort: &end}}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: value},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: some,
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers, Ports: ports}, {From: peers},
				{Ports: ports}},
			Egress: []networkingv1.NetworkPolicyEgressRule{{To: peers, Ports: ports}, {To: peers}, {Ports: ports},
				{}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}
