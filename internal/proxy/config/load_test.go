package config_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/proxy/config"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

func load(t *testing.T, body string) (*config.Loaded, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "proxy.yaml")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(file)
	if err != nil {
		err = unfile(err, file)
	}
	return l, err
}

type plain string

func (p plain) Error() string { return string(p) }

// unfile drops the path, which differs each time.
func unfile(err error, file string) error {
	return plain(err.Error()[len("proxy configuration "+file+": "):])
}

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

func TestFieldsThatHaveNoEffectAreNamed(t *testing.T) {
	l, err := load(t,
		head+"mode: nftables\nclusterCIDR: 10.72.0.0/16,fd00::/64\nnftables: {masqueradeBit: 3, masqueradeAll: true, "+
			"minSyncPeriod: 1s}\n"+
			"conntrack: {maxPerCore: 32768, min: null, tcpBeLiberal: false}\nfeatureGates: {X: true}\nportRange: "+
			"\"\"\nnodePortAddresses: [primary, 192.0.2.0/24]\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"featureGates.X"}; !slices.Equal(l.IgnoredFields, want) {
		t.Errorf("without effect: %q, want %q", l.IgnoredFields, want)
	}
	s := l.Settings(rules.IPv4)
	if s.MasqueradeBit != 3 || !s.MasqueradeAll || len(s.LocalDetector.Ranges) != 2 || len(s.NodePorts) != 1 ||
		s.NodePorts[0].String() != "192.0.2.0/24" {
		t.Errorf("settings: %+v", s)
	}
}

func TestDetectLocalModes(t *testing.T) {
	own := []netip.Prefix{netip.MustParsePrefix("10.72.3.0/24"), netip.MustParsePrefix("fd72:0:0:3::/64")}
	for _, c := range []struct{ body, want string }{
		{"clusterCIDR: 10.72.0.0/16", "{[10.72.0.0/16] }"},
		{"clusterCIDR: 10.72.0.0/16\ndetectLocalMode: ClusterCIDR", "{[10.72.0.0/16] }"},
		{"clusterCIDR: 10.72.0.0/16\ndetectLocalMode: NodeCIDR", "{[10.72.3.0/24 fd72:0:0:3::/64] }"},
		{"detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: br0}", "{[] br0}"},
		{"detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}", "{[] veth*}"},
	} {
		l, err := load(t, head+c.body)
		if err != nil {
			t.Fatal(err)
		}
		if l.NodeRanges = own; fmt.Sprint(l.Settings(rules.IPv4).LocalDetector) != c.want ||
			l.ByNode() != strings.Contains(c.body, "NodeCIDR") {
			t.Errorf("%s: got %v, want l.Settings(rules.IPv4).LocalDetector %v and l.ByNode() %v", c.body,
				l.Settings(rules.IPv4).LocalDetector, c.want, strings.Contains(c.body, "NodeCIDR"))
		}
	}
}

func TestWrongFieldsAreRefusedByName(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"kind: X", `apiVersion and kind are "" and "X": they must be kubeproxy.config.k8s.io/v1alpha1 and ` +
			`KubeProxyConfiguration`},
		{head + "mode: ipvs", `mode: "ipvs" is not supported: write nftables, or leave it out`},
		{head + "clusterCIDR: 10.0.0.1", `clusterCIDR: "10.0.0.1" is not a range such as 10.72.0.0/16`},
		{head + "detectLocalMode: BridgeInterface",
			"detectLocal.bridgeInterface: must be set when detectLocalMode is BridgeInterface"},
		{head + "detectLocalMode: LocalCIDR",
			`detectLocalMode: "LocalCIDR" is not supported: write ClusterCIDR, NodeCIDR, BridgeInterface or ` +
				`InterfaceNamePrefix`},
		{head + "nftables: {masqueradeBit: 32}", "nftables.masqueradeBit: 32 must be between 0 and 31"},
		{head + "conntrack: {maxPerCore: -1}", "conntrack.maxPerCore: -1 must be 0 or more"},
		{head + "conntrack: {tcpCloseWaitTimeout: -1s}", "conntrack.tcpCloseWaitTimeout: -1s must be 0 or more"},
		{head + "oomScoreAdj: 1001", "oomScoreAdj: 1001 must be between -1000 and 1000"},
		{head + "configSyncPeriod: -1s", "configSyncPeriod: must not be negative"},
		{head + "bindAddress: eth0", `bindAddress: "eth0" is not an address such as 192.0.2.1`},
		{head + "nosuch: 1", `error unmarshaling JSON: while decoding JSON: json: unknown field "nosuch"`},
	} {
		if _, err := load(t, c.body); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.body, err, c.want)
		}
	}
}
