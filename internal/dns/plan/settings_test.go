package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func servers(list ...string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range list {
		out = append(out, netip.MustParseAddrPort(s))
	}
	return out
}

func TestOverlayOfSettings(t *testing.T) {
	base := Settings{Upstreams: servers("192.0.2.1:53"), Stubs: []Stub{{"old.", servers("192.0.2.9:53")}}}
	for _, c := range []struct {
		name string
		data map[string]string
		want Settings
		err  string
	}{
		{"nothing said", nil, base, ""},
		{"upstreams with and without ports", map[string]string{KeyUpstreams: `["192.0.2.2", "[2001:db8::1]:5353"]`},
			Settings{servers("192.0.2.2:53", "[2001:db8::1]:5353"), base.Stubs}, ""},
		{"no upstreams", map[string]string{KeyUpstreams: `[]`}, Settings{servers(), base.Stubs}, ""},
		{"stub domains, ordered, without case",
			map[string]string{KeyStubs: `{"Zed.example.": ["192.0.2.3"], "acme.local": ["192.0.2.4:54"]}`},
			Settings{base.Upstreams, []Stub{{"acme.local.", servers("192.0.2.4:54")},
				{"zed.example.", servers("192.0.2.3:53")}}}, ""},
		{"no JSON", map[string]string{KeyUpstreams: `8.8.8.8`}, base, "data[upstreamNameservers]: want a JSON list"},
		{"no address", map[string]string{KeyUpstreams: `["dns.example"]`}, base,
			`data[upstreamNameservers]: "dns.example" is not an address`},
		{"no domain", map[string]string{KeyStubs: `{"a b": ["192.0.2.3"]}`}, base, `data[stubDomains]: domain "a b"`},
		{"a domain without servers", map[string]string{KeyStubs: `{"a": []}`}, base, `domain "a" has no server`},
		{"more than CoreDNS takes",
			map[string]string{KeyUpstreams: `["192.0.2.1"` + strings.Repeat(`,"192.0.2.1"`, 15) + `]`}, base,
			"16 servers; 15 at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Overlay(base, c.data)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v, want %q", err, c.err)
			}
			if !got.Equal(c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestNameservers(t *testing.T) {
	const text = "# nameserver 192.0.2.9\nsearch x\nnameserver 127.0.0.53\nnameserver 10.96.0.10\nnameserver " +
		"192.0.2.1\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver\n"
	got := Nameservers(text, []netip.Addr{netip.MustParseAddr("10.96.0.10")})
	if want := servers("127.0.0.53:53", "192.0.2.1:53"); !(Settings{Upstreams: got}).Equal(Settings{Upstreams: want}) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestClusterAddress(t *testing.T) {
	for in, want := range map[string]string{"10.96.0.0/16": "10.96.0.10", "10.96.0.7/16": "10.96.0.10",
		"fd00::/112": "fd00::a", "192.0.2.0/28": "192.0.2.10", "192.0.2.0/29": ""} {
		at, ok := ClusterAddress(netip.MustParsePrefix(in))
		if ok != (want != "") || ok && at.String() != want {
			t.Errorf("%s: %s %v, want %q", in, at, ok, want)
		}
	}
}

func TestServiceOfDNS(t *testing.T) {
	at := netip.MustParseAddr("10.96.0.10")
	s := Service(at)
	if why := Conflict(s, at); why != "" {
		t.Errorf("the own Service is taken for another's: %s, want none", why)
	}
	s.Spec.Selector = map[string]string{"k8s-app": "kube-dns"}
	if Conflict(s, at) == "" {
		t.Error("a Service with Pods is taken for the own one")
	}
	if Conflict(Service(netip.MustParseAddr("10.96.0.11")), at) == "" {
		t.Error("a Service at another address is taken for the own one")
	}
	slice := Slice(Server{Node: "n1", NodeUID: "u", At: netip.MustParseAddrPort("[fd00::1]:5353")})
	got := []string{string(slice.AddressType), slice.Endpoints[0].Addresses[0], *slice.Endpoints[0].NodeName,
		slice.OwnerReferences[0].Kind, slice.Name, slice.Labels["kubernetes.io/service-name"]}
	if diff := cmp.Diff([]string{"IPv6", "fd00::1", "n1", "Node", "kube-dns-n1", "kube-dns"}, got); diff != "" ||
		*slice.Ports[1].Port != 5353 {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

// Whatever is in the ConfigMap, the result is settings or an error that names the key, never half
// of a change.
func TestOverlayTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := map[string]string{}
		for _, key := range []string{KeyStubs, KeyUpstreams} {
			if rapid.Bool().Draw(t, "has "+key) {
				data[key] = rapid.OneOf(rapid.String(),
					rapid.SampledFrom([]string{`[]`, `{}`, `null`, `[null]`, `{"":[""]}`, `{"a":null}`, `["::1"]`,
						`["1.2.3.4:0"]`, `{".":["1.1.1.1"]}`, `["fe80::1%eth0"]`})).Draw(t, key)
			}
		}
		base := Settings{Upstreams: servers("192.0.2.1:53")}
		got, err := Overlay(base, data)
		if err != nil && (!got.Equal(base) || !strings.HasPrefix(err.Error(), "data[")) {
			t.Fatalf("got %v %+v, want %v and an error beginning with data[", err, got, base)
		}
		for _, s := range got.Stubs {
			if len(s.Servers) == 0 || !strings.HasSuffix(s.Zone, ".") {
				t.Fatalf("got %+v, want some Servers and Zone ending in .", s)
			}
		}
	})
}
