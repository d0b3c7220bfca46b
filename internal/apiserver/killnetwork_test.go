package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/networkpolicy"
	"github.com/gantry-project/gantry/internal/proxy"
	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// However often the server is killed, on a busy machine, the proxy learns of each Service and the
// policy controller of each NetworkPolicy that is made and deleted: both bring them into their
// tables, which are knftables' fakes here.
func TestProxyAndPoliciesResumeAfterAServerKill(t *testing.T) {
	v, at := newVictim(t, func(string, string) {})
	client := overHTTPSTo(at)
	write := func(f func() error) { t.Helper(); written(t, v.log.Name(), f) }
	write(func() error {
		pod := pod("web")
		pod.Labels = map[string]string{"app": "web"}
		_, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})
	web, err := client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	services := knftables.NewFake(knftables.IPv4Family, "gantry_proxy_test")
	settings := rules.Settings{Family: rules.IPv4, MasqueradeBit: 14}
	proxier, err := proxy.New(proxy.Options{Client: client, Node: "n1", Tables: []proxy.Table{{Settings: settings,
		Kernel: nftables.NewWithInterface(services, rules.NewTableFrame(settings))}}})
	if err != nil {
		t.Fatal(err)
	}
	policies := knftables.NewFake(knftables.InetFamily, "gantry_policy_test")
	controller, err := networkpolicy.New(networkpolicy.Options{Client: client,
		Table: networkpolicy.NewWithInterface(policies), MinSyncPeriod: time.Millisecond,
		Leases: func() ([]networkpolicy.Lease, error) {
			return []networkpolicy.Lease{{Pod: "default/web", UID: string(web.UID),
				IPs: []netip.Addr{netip.MustParseAddr("10.199.0.2")}}}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- proxier.Run(ctx) }()
	go func() { ended <- controller.Run(ctx) }()
	defer func() { stop(); _, _ = <-ended, <-ended }()
	await := func(table *knftables.Fake, text string, want bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); strings.Contains(table.Dump(), text) != want; {
			if time.Now().After(end) {
				message, _ := os.ReadFile(v.log.Name())
				t.Fatalf("%q in the table: got %v, want %v\n%s\n%s", text, !want, want, table.Dump(), message)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	beBusy(t)
	for round := range 3 {
		name, ip, cidr := fmt.Sprintf("round-%d", round), "", fmt.Sprintf("172.31.%d.0/24", round)
		if round > 0 {
			v.kill()
			v.start()
		}
		write(func() error {
			s, err := client.CoreV1().Services("default").Create(t.Context(), newService(name), metav1.CreateOptions{})
			if err == nil {
				ip = s.Spec.ClusterIP
			}
			return err
		})
		write(func() error {
			_, err := client.NetworkingV1().NetworkPolicies("default").Create(t.Context(), fromBlock(name, cidr),
				metav1.CreateOptions{})
			return err
		})
		if ip == "" { // the answer to the first try was lost
			s, err := client.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ip = s.Spec.ClusterIP
		}
		await(services, ip+" ", true)
		await(policies, cidr, true)
		write(func() error {
			return ignoreNotFound(client.CoreV1().Services("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
		})
		write(func() error {
			err := client.NetworkingV1().NetworkPolicies("default").Delete(t.Context(), name, metav1.DeleteOptions{})
			return ignoreNotFound(err)
		})
		await(services, ip+" ", false)
		await(policies, cidr, false)
	}
}

// ignoreNotFound leaves out that an object is not there: an earlier try deleted it, and its answer
// was lost.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// fromBlock is a policy that lets only a block of addresses reach the Pod web.
func fromBlock(name, cidr string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}}}}}
}
