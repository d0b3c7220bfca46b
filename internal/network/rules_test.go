package network

import (
	"flag"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

func TestRulesetLifecycle(t *testing.T) {
	addr := netip.MustParseAddr
	leases := []ipam.Lease{{
		IPs: []netip.Addr{addr("10.72.0.2"), addr("fd00:72::2")},
		Ports: []ipam.Port{
			{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"},
			{HostPort: 5353, ContainerPort: 53, Protocol: "udp", HostIP: addr("127.0.0.1")},
		},
	}}
	s := settings{id: "0badcafe", bridge: "gantry0", ranges: []netip.Prefix{netip.MustParsePrefix("10.72.0.0/16"),
		netip.MustParsePrefix("fd00:72::/64")}}
	got := ruleset(s, leases) + "\n# the Pod ends:\n" + closePorts(s.id, leases[0])
	const golden = "testdata/ruleset.nft"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("make stories rewrites %s:\n%s", golden, diff)
	}
}

func TestConfigSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		in   Config
		want string
	}{
		{"no directory", Config{}, "the network needs a data directory"},
		{"bridge name", Config{DataDir: "/x", Bridge: "a-name-much-too-long"},
			`bridge name "a-name-much-too-long": at most 15 bytes, without slash, space or quote; choose another ` +
				`with ` +
				`--bridge`},
		{"no range", Config{DataDir: "/x", PodCIDR: "10.0.0.1"},
			`Pod range "10.0.0.1": netip.ParsePrefix("10.0.0.1"): no '/'; write it like 10.72.0.0/16 in --pod-cidr`},
		{"small range", Config{DataDir: "/x", PodCIDR: "10.0.0.0/30"},
			"Pod range 10.0.0.0/30 is too small: at least 3 bits must be free, as in 10.72.0.0/29"},
		{"one family twice", Config{DataDir: "/x", PodCIDR: "10.0.0.0/24,10.0.1.0/24"},
			`Pod ranges "10.0.0.0/24,10.0.1.0/24": one range, or one IPv4 and one IPv6 range`},
	} {
		if _, err := c.in.settings(); err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want error %v", c.name, err, c.want)
		}
	}
}
