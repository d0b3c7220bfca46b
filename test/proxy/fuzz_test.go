package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"pgregory.net/rapid"
	"sigs.k8s.io/knftables"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// texts that addresses and ranges may be: good ones, of either family, and nonsense.
var (
	someIP = rapid.SampledFrom([]string{"10.96.0.1", "10.96.0.2", "10.96.0.3", "192.0.2.7", "fd00::1", "fd00::2",
		"::ffff:10.1.2.3", "0.0.0.0", "::", "", "None", "x", "fe80::1%eth0", "127.0.0.1", "224.0.0.1"})
	someRange = rapid.SampledFrom([]string{"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "::/0", "fd00::/8", "fd00::/16",
		"10.0.0.1", "", " 192.0.2.0/24 ", "x/3", "10.0.0.0/8", "255.0.0.0/8", "0.0.0.0/8", "ff00::/8"})
	someName  = rapid.SampledFrom([]string{"", "http", "a", "a-very-long-nm1", "p-0"})
	protocols = rapid.SampledFrom([]v1.Protocol{v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP, "", "ICMP"})
	someNode  = rapid.SampledFrom([]string{"n1", "n2", ""})
	somePort  = rapid.Int32Range(-1, 65536)
	maybe     = rapid.SampledFrom([]*bool{nil, new(true), new(false)})
)

func anyService(t *rapid.T, name string) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Type = rapid.SampledFrom([]v1.ServiceType{v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort,
		v1.ServiceTypeLoadBalancer, v1.ServiceTypeExternalName, ""}).Draw(t, "type")
	s.Spec.ClusterIP = someIP.Draw(t, "clusterIP")
	s.Spec.ClusterIPs = rapid.SliceOfN(someIP, 0, 2).Draw(t, "clusterIPs")
	s.Spec.ExternalIPs = rapid.SliceOfN(someIP, 0, 3).Draw(t, "externalIPs")
	s.Spec.LoadBalancerSourceRanges = rapid.SliceOfN(someRange, 0, 4).Draw(t, "ranges")
	for _, ip := range rapid.SliceOfN(someIP, 0, 3).Draw(t, "ingress") {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, v1.LoadBalancerIngress{IP: ip})
	}
	s.Spec.SessionAffinity = rapid.SampledFrom([]v1.ServiceAffinity{"", v1.ServiceAffinityClientIP}).Draw(t, "affinity")
	if rapid.Bool().Draw(t, "timeout") {
		s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{
			ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(rapid.Int32Range(-1, 86401).Draw(t, "seconds"))}}
	}
	s.Spec.ExternalTrafficPolicy = rapid.SampledFrom([]v1.ServiceExternalTrafficPolicy{"",
		v1.ServiceExternalTrafficPolicyLocal}).Draw(t, "external")
	s.Spec.InternalTrafficPolicy = rapid.SampledFrom([]*v1.ServiceInternalTrafficPolicy{nil,
		new(v1.ServiceInternalTrafficPolicyLocal)}).Draw(t, "internal")
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: someName.Draw(t, "name"),
			Protocol: protocols.Draw(t, "protocol"), Port: somePort.Draw(t, "port"),
			NodePort: somePort.Draw(t, "nodePort")})
	}
	return s
}

func anySlice(t *rapid.T) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: rapid.SampledFrom([]discoveryv1.AddressType{"IPv4", "IPv6", "FQDN",
		""}).Draw(t, "addressType")}
	for range rapid.IntRange(0, 3).Draw(t, "ports") {
		p := discoveryv1.EndpointPort{}
		if rapid.Bool().Draw(t, "named") {
			p.Name = new(someName.Draw(t, "name"))
		}
		if rapid.Bool().Draw(t, "typed") {
			p.Protocol = new(protocols.Draw(t, "protocol"))
		}
		if rapid.Bool().Draw(t, "numbered") {
			p.Port = new(somePort.Draw(t, "port"))
		}
		s.Ports = append(s.Ports, p)
	}
	for range rapid.IntRange(0, 12).Draw(t, "endpoints") {
		e := discoveryv1.Endpoint{Addresses: rapid.SliceOfN(someIP, 0, 2).Draw(t, "addresses"),
			Conditions: discoveryv1.EndpointConditions{Ready: maybe.Draw(t, "ready"), Serving: maybe.Draw(t, "serving"),
				Terminating: maybe.Draw(t, "terminating")}}
		if len(e.Addresses) > 0 && rapid.Bool().Draw(t, "distinct") {
			e.Addresses[0] = fmt.Sprintf("10.1.%d.%d", rapid.IntRange(0, 255).Draw(t, "c"),
				rapid.IntRange(0, 255).Draw(t, "d"))
		}
		if n := someNode.Draw(t, "node"); n != "" {
			e.NodeName = &n
		}
		if rapid.Bool().Draw(t, "hints") {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: someNode.Draw(t, "zone")}},
				ForNodes: []discoveryv1.ForNode{{Name: someNode.Draw(t, "near")}}}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func anySettings(t *rapid.T, f rules.Family) rules.Settings {
	s := rules.Settings{Family: f, MasqueradeBit: rapid.IntRange(0, 31).Draw(t, "bit"),
		MasqueradeAll: rapid.Bool().Draw(t, "all")}
	s.LocalDetector.Interface = rapid.SampledFrom([]string{"", "br0", "veth*"}).Draw(t, "interface")
	for _, r := range rapid.SampledFrom([][]string{nil, {"10.72.0.0/16"}, {"10.72.0.0/15"},
		{"10.0.0.1/32", "fd00::/48"}, {"10.72.0.0/16", "10.90.0.0/20"}, {"fd00::/48", "fd00:1::/56"}}).Draw(t,
		"local") {
		s.LocalDetector.Ranges = append(s.LocalDetector.Ranges, netip.MustParsePrefix(r))
	}
	s.ConfineInterfaces = rapid.SampledFrom([][]string{nil, {"br0"}, {"br0", "br1"}}).Draw(t, "confine")
	return s
}

// checkTransactions takes tables through the same random changes; every transaction must be taken,
// and each table must be what the book says.
func checkTransactions(t *rapid.T, s rules.Settings, tables ...*nftables.Table) {
	ctx := context.Background()
	fatal := func(what string, err error) {
		if err != nil {
			t.Fatalf("%s: got error %v, want none", what, err)
		}
	}
	for _, table := range tables {
		defer table.Close()
		fatal("frame", table.EnsureFrame(ctx))
	}
	book := rules.NewDesiredState()
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		change := rules.NewChange()
		for i := range rapid.IntRange(1, 3).Draw(t, "services") {
			name := fmt.Sprintf("s%d", i)
			state := rules.NewState()
			if rapid.Bool().Draw(t, "there") {
				in := rules.Input{Service: anyService(t, name), Node: rules.Node{Name: "n1", Zone: "n2"}}
				for range rapid.IntRange(0, 2).Draw(t, "slices") {
					in.Slices = append(in.Slices, anySlice(t))
				}
				for _, p := range rules.ServicePorts(in, s.Family) {
					state.Add(p.State(s))
				}
			}
			change.Merge(book.Set(rules.Owner{Name: "default/" + name, Created: int64(i % 2)}, state))
		}
		units := rules.Delta(change.Was, change.Now)
		for _, table := range tables {
			fatal("check", table.DryRun(ctx, units))
			fatal("apply", table.Apply(ctx, units))
			have, err := table.List(ctx, book.All())
			fatal("list", err)
			if left := rules.Delta(have, book.All()); len(left) > 0 {
				t.Fatalf("the table differs from the book by %v", left)
			}
			if !table.Intact(ctx, book.All().Chains) {
				t.Fatal("the table counts as changed by others")
			}
		}
		if len(tables) == 2 {
			same(t, s.Family)
		}
	}
	for _, table := range tables {
		fatal("remove", table.Remove(ctx))
	}
}

// same compares the two tables as nft prints them.
func same(t *rapid.T, f rules.Family) {
	var texts []string
	for _, name := range []string{tableName, otherTable} {
		out, err := exec.Command("nft", "list", "table", string(f), name).CombinedOutput()
		if err != nil {
			t.Fatalf("list %s: %v: %s, want no error", name, err, out)
		}
		texts = append(texts, strings.Replace(string(out), " "+name+" {", " {", 1))
	}
	if texts[0] != texts[1] {
		t.Fatalf("nft made\n%s\nnetlink made\n%s", texts[0], texts[1])
	}
}

const otherTable = tableName + "_2"

func TestAnyServicesAgainstTheFake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]rules.Family{rules.IPv4, rules.IPv6}).Draw(t, "family")
		s := anySettings(t, f)
		checkTransactions(t, s, nftables.NewWithInterface(knftables.NewFake(knftables.Family(f), tableName),
			rules.NewTableFrame(s)))
	})
}

// The program nft and netlink make the same of the same Services, as nft prints it, and the kernel
// refuses nothing.
func TestAnyServicesAgainstTheKernel(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	most := 25 // each is some twenty calls of nft
	rapid.Check(t, func(t *rapid.T) {
		if most--; most < 0 {
			return
		}
		f := rapid.SampledFrom([]rules.Family{rules.IPv4, rules.IPv6}).Draw(t, "family")
		s := anySettings(t, f)
		failed := make(chan any, 1)
		if err := w.node.Do(func(ns.NetNS) error {
			defer func() { failed <- recover() }() // rapid ends a failed case by a panic, which must not cross threads
			nft, err := knftables.New(knftables.Family(f), tableName, knftables.UseNetlink)
			if err != nil {
				return err
			}
			wired, err := nftables.Open(new(nfnetlink.Conn), f, otherTable, rules.NewTableFrame(s))
			if err != nil {
				return err
			}
			checkTransactions(t, s, nftables.NewWithInterface(nft, rules.NewTableFrame(s)), wired)
			if w := wired.TransactionCounts(); w.Nft > 2 { // frame and removal
				t.Fatalf("%d of the transactions had no words for netlink", w.Nft-2)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if p := <-failed; p != nil {
			most = 1 << 20 // rapid looks for the smallest case now
			panic(p)
		}
	})
}
