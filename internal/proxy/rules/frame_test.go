package rules_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// frameText prints a frame as a transcript.
func frameText(f rules.TableFrame) string {
	var b strings.Builder
	for _, s := range f.Sets {
		fmt.Fprintf(&b, "%s %s: %s\n", map[bool]string{true: "map", false: "set"}[s.IsMap], s.Name, s.Type)
	}
	for _, c := range f.BaseChains {
		fmt.Fprintf(&b, "%s: type %s hook %s priority %s\n", c.Chain, c.Type, c.Hook, c.Priority)
	}
	for _, c := range f.Chains {
		fmt.Fprintf(&b, "%s\n  %s\n", c.Name, strings.Join(c.Rules, "\n  "))
	}
	return b.String()
}

// The rules that all Services share, by settings.
func TestFrame(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, s := range texts {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	var out strings.Builder
	for _, c := range []struct {
		name     string
		settings rules.Settings
	}{
		{"Pods' interface, confined to two interfaces", rules.Settings{Family: rules.IPv4, MasqueradeBit: 14,
			LocalDetector:     rules.LocalTrafficDetector{Interface: "gantry0"},
			ConfineInterfaces: []string{"gantry0", "lo"}}},
		{"IPv6, Pods' ranges, node ports on one range, masquerade all", rules.Settings{Family: rules.IPv6,
			MasqueradeAll: true,
			LocalDetector: rules.LocalTrafficDetector{Ranges: prefixes("fd00:72::/64", "10.72.0.0/16")},
			NodePorts:     prefixes("192.0.2.0/24", "2001:db8::/32", "2001:db8:1::/48")}},
		{"Pods' ranges, node ports on addresses of the other family", rules.Settings{Family: rules.IPv4,
			MasqueradeBit: 31, NodePorts: prefixes("2001:db8::/32"),
			LocalDetector: rules.LocalTrafficDetector{Ranges: prefixes("10.73.0.0/16", "10.72.0.0/16")}}},
	} {
		fmt.Fprintf(&out, "# %s\n%s\n", c.name, frameText(rules.NewTableFrame(c.settings)))
	}
	const golden = "testdata/frame.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("make stories rewrites %s:\n%s", golden, diff)
	}
}

// The kernel counts a chain's rules and what leads to it; a chain of another count was changed by
// somebody else.
func TestChainUses(t *testing.T) {
	const (
		end, service = "endpoint-ABC-default/web/tcp/http", "service-DEF-default/web/tcp/http"
		external     = "external-GHI-default/web/tcp/80"
	)
	s := rules.NewState()
	s.Chains[end] = []string{"update @affinity-X-default/web/tcp/http { ip saddr }", "dnat to 10.1.0.1:80"}
	s.Chains[service] = []string{"numgen random mod 2 vmap { 0 : goto " + end + ", 1 : goto " + end + " }"}
	s.Chains[external] = []string{"jump mark-for-masquerade", "jump " + service}
	s.Elements[rules.Element{Set: "service-ips", Key: "a"}] = "goto " + service
	s.Elements[rules.Element{Set: "service-ips", Key: "b"}] = "goto " + external
	s.Elements[rules.Element{Set: "service-ips", Key: "c"}] = "goto reject-chain"
	want := map[string]int{end: 2 + 2, service: 1 + 2, external: 2 + 1}
	if diff := cmp.Diff(want, rules.ChainUses(s)); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{end: true, service: true, external: true,
		"local-A-ns/s/udp/1": true, "firewall-A-ns/s/sctp/p": true, "affinity-A-ns/s/tcp/1": true,
		"choose-2": false, "reject-chain": false, "service-ips": false, "other-A-ns/s/tcp/1": false,
		"service-A-ns/s": false} {
		if got := rules.IsServiceObject(name); got != want {
			t.Errorf("%s is a Service's: got %v, want %v", name, got, want)
		}
	}
}
