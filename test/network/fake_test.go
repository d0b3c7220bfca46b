package network

import (
	"context"
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/knftables"

	"github.com/gantry-project/gantry/internal/networkpolicy"
	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

func TestCasesOnTheFake(t *testing.T) {
	fake := knftables.NewFake(knftables.InetFamily, "gantry_policy_test")
	going := networkpolicy.NewWithInterface(fake) // from case to case by what differs
	for _, c := range cases {
		want := rules.Build(c.rulesInput(t))
		if err := going.Set(t.Context(), want); err != nil {
			t.Fatalf("%s: got error %v, want none", c.name, err)
		}
		fresh := knftables.NewFake(knftables.InetFamily, "gantry_policy_test")
		if err := networkpolicy.NewWithInterface(fresh).Set(t.Context(), want); err != nil {
			t.Fatalf("%s: got error %v, want none", c.name, err)
		}
		if a, b := fake.Dump(), fresh.Dump(); !sameLines(a, b) {
			t.Errorf("%s: by what differs\n%s\nanew\n%s", c.name, a, b)
		}
		if again := rules.Diff(want, rules.Build(c.rulesInput(t))); len(again) != 0 {
			t.Errorf("%s: built twice, it differs by %v, want none", c.name, again)
		}
	}
	if err := going.Remove(context.Background()); err != nil || fake.Table != nil && fake.Dump() == "" {
		t.Errorf("remove: %v, left %q", err, fake.Dump())
	}
}

// FuzzPolicies: whatever a policy says, there is an answer, and the kernel's rules hold together.
func FuzzPolicies(f *testing.F) {
	f.Add("10.0.0.0/8", "10.1.0.0/16", "app", "web", int32(80), int32(90), "http", "TCP")
	f.Add("::/0", "fd00::/8", "a/b", "-", int32(-1), int32(65536), "", "SCTP")
	f.Add("0.0.0.0/0", "::ffff:1.2.3.4/100", "", "", int32(0), int32(0), "x\" drop", "ICMP")
	f.Fuzz(func(t *testing.T, cidr, except, key, value string, port, end int32, named, proto string) {
		in := cluster()
		p := fuzzed(cidr, except, key, value, named, proto, port, end)
		in.Policies = []*networkingv1.NetworkPolicy{p, nil}
		in.Pods[0].Ports[0].Name = named
		fake := knftables.NewFake(knftables.InetFamily, "gantry_policy_test")
		if err := networkpolicy.NewWithInterface(fake).Set(t.Context(), rules.Build(in)); err != nil {
			t.Fatalf("got %v, want no error\n%s", err, fmt.Sprint(p.Spec))
		}
	})
}
