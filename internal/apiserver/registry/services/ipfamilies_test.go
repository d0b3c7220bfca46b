package services

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// families is an allocator of one family, or of two, whose addresses are taken in order.
func families(t testing.TB, cidrs ...string) *Allocator {
	t.Helper()
	var ranges []netip.Prefix
	for _, c := range cidrs {
		ranges = append(ranges, netip.MustParsePrefix(c))
	}
	a, err := New(ranges, 30000, 30010, func(context.Context) ([]v1.Service, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.pools {
		p.pick = func(int) int { return 0 }
	}
	return a
}

// asked is a Service with policy, families and addresses, each a list of words.
func asked(policy, list, ips string, edit ...func(*v1.Service)) *v1.Service {
	return service(append([]func(*v1.Service){func(s *v1.Service) {
		if policy != "" {
			s.Spec.IPFamilyPolicy = new(v1.IPFamilyPolicy(policy))
		}
		for _, f := range strings.Fields(list) {
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, v1.IPFamily("IPv"+f))
		}
		if s.Spec.ClusterIPs = strings.Fields(ips); len(s.Spec.ClusterIPs) > 0 {
			s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
		}
	}}, edit...)...)
}

// got is policy, families and addresses of a Service, or an error without the words that all have.
func got(s *v1.Service, err error) string {
	if err != nil {
		return strings.TrimPrefix(err.Error(), `Service "s" is invalid: `)
	}
	policy := "nil"
	if p := s.Spec.IPFamilyPolicy; p != nil {
		policy = string(*p)
	}
	return fmt.Sprint(policy, s.Spec.IPFamilies, s.Spec.ClusterIPs)
}

// The families of a new Service, of a cluster with one family and of one with two: what policy,
// families and addresses ask for, and what of it is missing.
func TestFamiliesOfANewService(t *testing.T) {
	const single, prefer, require = "SingleStack", "PreferDualStack", "RequireDualStack"
	noSelector := func(s *v1.Service) { s.Spec.Selector = nil }
	const notDual = `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for ` +
		`dual-stack services`
	const no6 = `spec.ipFamilies[%d]: Invalid value: "IPv6": not configured on this cluster`
	const noFamily = "spec.clusterIPs[%d]: Invalid value: [%s]: IPv6 is not configured on this cluster"
	const several = `spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or ` +
		`'PreferDualStack' when multiple %s are specified`
	for _, c := range []struct {
		policy, families, ips string
		edit                  func(*v1.Service)
		one, two              string // the cluster's families
	}{
		{one: "SingleStack [IPv4] [10.0.0.17]", two: "SingleStack [IPv4] [10.0.0.17]"},
		{policy: single, one: "SingleStack [IPv4] [10.0.0.17]", two: "SingleStack [IPv4] [10.0.0.17]"},
		{policy: prefer, one: "PreferDualStack [IPv4] [10.0.0.17]",
			two: "PreferDualStack [IPv4 IPv6] [10.0.0.17 fd00::11]"},
		{policy: require, one: notDual, two: "RequireDualStack [IPv4 IPv6] [10.0.0.17 fd00::11]"},
		{families: "4", one: "SingleStack [IPv4] [10.0.0.17]", two: "SingleStack [IPv4] [10.0.0.17]"},
		{families: "6", one: fmt.Sprintf(no6, 0), two: "SingleStack [IPv6] [fd00::11]"},
		{policy: prefer, families: "6", one: fmt.Sprintf(no6, 0),
			two: "PreferDualStack [IPv6 IPv4] [fd00::11 10.0.0.17]"},
		{policy: require, families: "4 6", one: "[" + notDual + ", " + fmt.Sprintf(no6, 1) + "]",
			two: "RequireDualStack [IPv4 IPv6] [10.0.0.17 fd00::11]"},
		{policy: require, families: "6 4", one: "[" + notDual + ", " + fmt.Sprintf(no6, 0) + "]",
			two: "RequireDualStack [IPv6 IPv4] [fd00::11 10.0.0.17]"},
		{families: "4 6", one: fmt.Sprintf(several, "IP families"), two: fmt.Sprintf(several, "IP families")},
		{policy: single, families: "4 6", one: fmt.Sprintf(several, "IP families"),
			two: fmt.Sprintf(several, "IP families")},
		{policy: single, ips: "10.0.0.1 fd00::1",
			one: "[" + fmt.Sprintf(several, "cluster IPs") + ", " + fmt.Sprintf(noFamily, 1,
				`"10.0.0.1","fd00::1"`) + "]",
			two: fmt.Sprintf(several, "cluster IPs")},
		{ips: "fd00::1", one: fmt.Sprintf(noFamily, 0, `"fd00::1"`), two: "SingleStack [IPv6] [fd00::1]"},
		{policy: require, ips: "10.0.0.1 fd00::1", one: fmt.Sprintf(noFamily, 1, `"10.0.0.1","fd00::1"`),
			two: "RequireDualStack [IPv4 IPv6] [10.0.0.1 fd00::1]"},
		{policy: prefer, ips: "10.0.0.1", one: "PreferDualStack [IPv4] [10.0.0.1]",
			two: "PreferDualStack [IPv4 IPv6] [10.0.0.1 fd00::11]"},
		{policy: prefer, families: "6 4", ips: "fd00::1", one: fmt.Sprintf(no6, 0),
			two: "PreferDualStack [IPv6 IPv4] [fd00::1 10.0.0.17]"},
		{ips: "None", one: "SingleStack [IPv4] [None]", two: "SingleStack [IPv4] [None]"},
		{policy: prefer, ips: "None", one: "PreferDualStack [IPv4] [None]", two: "PreferDualStack [IPv4 IPv6] [None]"},
		{policy: require, ips: "None", one: notDual, two: "RequireDualStack [IPv4 IPv6] [None]"},
		{ips: "None", edit: noSelector, one: "RequireDualStack [IPv4 IPv6] [None]",
			two: "RequireDualStack [IPv4 IPv6] [None]"},
		{policy: single, ips: "None", edit: noSelector, one: "SingleStack [IPv4] [None]",
			two: "SingleStack [IPv4] [None]"},
		{families: "6", ips: "None", edit: noSelector, one: "RequireDualStack [IPv6 IPv4] [None]",
			two: "RequireDualStack [IPv6 IPv4] [None]"},
		{families: "6 4", ips: "None", edit: noSelector, one: "RequireDualStack [IPv6 IPv4] [None]",
			two: "RequireDualStack [IPv6 IPv4] [None]"},
		{families: "4", ips: "fd00::1",
			one: "spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by " +
				"`ipFamilies[0]`",
			two: "spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by " +
				"`ipFamilies[0]`"},
		{ips: "10.0.0.1 10.0.0.2",
			one: `spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each ` +
				`IP family`,
			two: `spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each ` +
				`IP family`},
		{edit: func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName }, one: "nil[] []", two: "nil[] []"},
	} {
		for _, cluster := range []struct {
			ranges []string
			want   string
		}{{[]string{"10.0.0.0/24"}, c.one}, {[]string{"10.0.0.0/24", "fd00::/120"}, c.two}} {
			s := asked(c.policy, c.families, c.ips)
			if c.edit != nil {
				c.edit(s)
			}
			if s.Spec.Type == v1.ServiceTypeExternalName {
				s.Spec.InternalTrafficPolicy = nil
			}
			err := create(families(t, cluster.ranges...), s)
			if g := got(s, err); strings.ReplaceAll(g, " [", "[") != strings.ReplaceAll(cluster.want, " [", "[") {
				t.Errorf("policy %q, families %q, addresses %q of %q:\ngot  %s\nwant %s", c.policy, c.families, c.ips,
					cluster.ranges, g, cluster.want)
			}
			if err == nil && len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIP != s.Spec.ClusterIPs[0] {
				t.Errorf("%s: got clusterIP %q, want the first of %q", got(s, nil), s.Spec.ClusterIP, s.Spec.ClusterIPs)
			}
		}
	}
}

// An update that leaves families out keeps them; the second one is given up with the policy, its
// address comes back, and a new one is added by it.
func TestFamiliesOfAnUpdate(t *testing.T) {
	const two = "PreferDualStack[IPv4 IPv6] [10.0.0.17 fd00::11]"
	for _, c := range []struct {
		name, from string // policy of the stored Service
		change     func(*v1.Service)
		want, free string // free: an address that the update gives back
		ips        string // of the stored Service
		refused    string
	}{
		{name: "nothing", from: "PreferDualStack", change: func(*v1.Service) {}, want: two},
		{name: "left out", from: "PreferDualStack", change: func(s *v1.Service) {
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy, s.Spec.ClusterIPs, s.Spec.ClusterIP = nil, nil, nil, ""
		}, want: two},
		{name: "an address less", from: "PreferDualStack", change: func(s *v1.Service) {
			s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1]
		}, refused: `spec.ipFamilyPolicy: Invalid value: "PreferDualStack": must be 'SingleStack' to release the ` +
			`secondary cluster IP`},
		{name: "a family less", from: "RequireDualStack", change: func(s *v1.Service) {
			s.Spec.IPFamilies = s.Spec.IPFamilies[:1]
		}, refused: `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the ` +
			`secondary IP family`},
		{name: "headless", from: "PreferDualStack", ips: "None", change: func(s *v1.Service) {
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = nil, new(v1.IPFamilyPolicySingleStack)
		}, want: "SingleStack[IPv4] [None]"},
		{name: "the policy alone", from: "PreferDualStack", change: func(s *v1.Service) {
			s.Spec.IPFamilyPolicy = new(v1.IPFamilyPolicySingleStack)
		}, want: "SingleStack[IPv4] [10.0.0.17]", free: "fd00::11"},
		{name: "policy and families", from: "PreferDualStack", change: func(s *v1.Service) {
			s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = new(v1.IPFamilyPolicySingleStack), s.Spec.IPFamilies[:1]
		}, want: "SingleStack[IPv4] [10.0.0.17]", free: "fd00::11"},
		{name: "a second family", from: "SingleStack", change: func(s *v1.Service) {
			s.Spec.IPFamilyPolicy = new(v1.IPFamilyPolicyPreferDualStack)
		}, want: two},
		{name: "required", from: "SingleStack", change: func(s *v1.Service) {
			s.Spec.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
			s.Spec.IPFamilies = []v1.IPFamily{"IPv4", "IPv6"}
		}, want: "RequireDualStack[IPv4 IPv6] [10.0.0.17 fd00::11]"},
		{name: "a name in its place", from: "PreferDualStack", change: func(s *v1.Service) {
			s.Spec.Type, s.Spec.ExternalName = v1.ServiceTypeExternalName, "a.b"
		}, want: "nil[] []", free: "10.0.0.17"},
	} {
		a := families(t, "10.0.0.0/24", "fd00::/120")
		old := asked(c.from, "", c.ips)
		if err := create(a, old); err != nil {
			t.Fatal(err)
		}
		s := old.DeepCopy()
		c.change(s)
		finish, err := a.begin(t.Context(), s, old, false)
		if c.refused != "" || err != nil {
			if err == nil || got(s, err) != c.refused {
				t.Errorf("%s: got error %v, want %q", c.name, err, c.refused)
			}
			continue
		}
		dropTypeDependentFields(s, old)
		finish(true)
		if g := got(s, nil); g != c.want {
			t.Errorf("%s: got %s, want %s", c.name, g, c.want)
		}
		for _, ip := range old.Spec.ClusterIPs {
			if ip == v1.ClusterIPNone {
				continue
			}
			p := a.poolOf(familyOf(ip), ip)
			free := c.free == ip || c.free == "10.0.0.17"
			if taken := p.allocated.get(p.offset(netip.MustParseAddr(ip))); taken == free {
				t.Errorf("%s: %s is taken: %v, want %v", c.name, ip, taken, !free)
			}
		}
	}
}

// What an allocator is made of: one range, or one per family; ports in order.
func TestRangesOfAnAllocator(t *testing.T) {
	for _, c := range []struct {
		ranges    string
		low, high int
		want      string
	}{
		{"10.0.0.0/24", 1, 65535, ""},
		{"10.0.0.0/24 fd00::/108", 30000, 30000, ""},
		{"fd00::/108 10.0.0.0/24", 30000, 30001, ""},
		{"", 1, 2, "service ranges: want one, or one per address family, got 0: name them as in 10.96.0.0/16"},
		{"10.0.0.0/24 fd00::/108 10.1.0.0/24", 1, 2,
			"service ranges: want one, or one per address family, got 3: name them as in 10.96.0.0/16"},
		{"10.0.0.0/24 10.1.0.0/24", 1, 2,
			"service ranges 10.0.0.0/24 and 10.1.0.0/24 are of one address family: name one range per family"},
		{"10.0.0.0/24", 0, 2, "node port range 0-2: want two port numbers, the lower first"},
		{"10.0.0.0/24", 1, 65536, "node port range 1-65536: want two port numbers, the lower first"},
		{"10.0.0.0/24", 3, 2, "node port range 3-2: want two port numbers, the lower first"},
	} {
		var ranges []netip.Prefix
		for _, r := range strings.Fields(c.ranges) {
			ranges = append(ranges, netip.MustParsePrefix(r))
		}
		got := ""
		if _, err := New(ranges, c.low, c.high, nil); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, ports %d-%d: got %q, want %q", c.ranges, c.low, c.high, got, c.want)
		}
	}
}

// How many addresses and ports a range has, how many of them are left for those who ask for one,
// and
// which is given first (KEP-3070, KEP-3668).
func TestSizesOfRanges(t *testing.T) {
	first := func(int) int { return 0 }
	for _, c := range []struct {
		cidr         string
		size, static int
		next, last   string
	}{
		{"10.0.0.0/32", 0, 0, "", ""}, {"10.0.0.0/31", 0, 0, "", ""}, {"10.0.0.0/30", 2, 0, "10.0.0.1", "10.0.0.2"},
		{"10.0.0.0/28", 14, 0, "10.0.0.1", "10.0.0.14"}, {"10.0.0.0/27", 30, 16, "10.0.0.17", "10.0.0.30"},
		{"10.0.0.0/24", 254, 16, "10.0.0.17", "10.0.0.254"}, {"10.0.0.0/23", 510, 31, "10.0.0.32", "10.0.1.254"},
		{"10.0.0.0/20", 4094, 255, "10.0.1.0", "10.0.15.254"}, {"10.0.0.0/16", 65534, 256, "10.0.1.1", "10.0.255.254"},
		{"10.0.0.0/12", 65536, 256, "10.0.1.1", "10.1.0.0"}, {"fd00::/124", 15, 0, "fd00::1", "fd00::f"},
		{"fd00::/112", 65535, 256, "fd00::101", "fd00::ffff"}, {"fd00::/64", 65536, 256, "fd00::101", "fd00::1:0"},
	} {
		p := newIPPool(netip.MustParsePrefix(c.cidr), first)
		next, err := p.allocateNext()
		if p.size != c.size || p.static != c.static || next != c.next || (err == nil) != (c.next != "") {
			t.Errorf("%s: got size %d, static %d, first %q, error %v; want %d, %d, %q", c.cidr, p.size, p.static, next,
				err, c.size, c.static, c.next)
		}
		if c.last == "" {
			continue
		}
		last := netip.MustParseAddr(c.last)
		if p.offset(last) != c.size-1 || p.offset(last.Next()) != -1 || p.offset(p.prefix.Addr()) != -1 {
			t.Errorf("%s: got %s at %d, the next one at %d and the network at %d; want %d, -1 and -1", c.cidr, last,
				p.offset(last), p.offset(last.Next()), p.offset(p.prefix.Addr()), c.size-1)
		}
	}
	for _, c := range []struct{ low, high, static int }{{1, 16, 0}, {1, 17, 16}, {30000, 32767, 86}, {1, 512, 16},
		{1, 544, 17}, {1, 65535, 128}} {
		p := newPortPool(c.low, c.high, first)
		if n, err := p.allocateNext(); p.static != c.static || n != c.low+c.static || err != nil {
			t.Errorf("ports %d-%d: got static %d, first %d, error %v; want %d, %d", c.low, c.high, p.static, n, err,
				c.static, c.low+c.static)
		}
	}
}

// The part for those who ask is used when the other one is full, and what is given back is given
// again.
func TestAFullRange(t *testing.T) {
	ips := newIPPool(netip.MustParsePrefix("10.0.0.0/27"), func(n int) int { return n - 1 })
	var order []string
	for range 30 {
		ip, err := ips.allocateNext()
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, strings.TrimPrefix(ip, "10.0.0."))
	}
	const want = "30 17 18 19 20 21 22 23 24 25 26 27 28 29 16 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("got addresses in the order %s, want %s", got, want)
	}
	if _, err := ips.allocateNext(); err != errFull {
		t.Errorf("got error %v, want %v", err, errFull)
	}
	ips.release("10.0.1.7")
	ips.release("no address")
	ips.release("10.0.0.7")
	if ip, err := ips.allocateNext(); ip != "10.0.0.7" || err != nil {
		t.Errorf("got %q, %v, want 10.0.0.7", ip, err)
	}
	for ip, want := range map[string]string{"x": `"x" is not an IP address`, "10.0.0.7": errAllocated.Error(),
		"10.0.0.0": errNotInRange.Error(), "10.0.0.31": errNotInRange.Error(), "fd00::1": errNotInRange.Error()} {
		if err := ips.allocate(ip); err == nil || err.Error() != want {
			t.Errorf("%s: got error %v, want %s", ip, err, want)
		}
	}
	ports := newPortPool(30000, 30001, func(int) int { return 1 })
	for _, want := range []int{30001, 30000} {
		if n, err := ports.allocateNext(); n != want || err != nil {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
	}
	if _, err := ports.allocateNext(); err != errFull {
		t.Errorf("got error %v, want %v", err, errFull)
	}
	ports.release(29999)
	ports.release(30002)
	ports.release(30001)
	for n, want := range map[int]string{29999: "provided port is not in the valid range. The range of valid ports is " +
		"30000-30001", 30002: "provided port is not in the valid range. The range of valid ports is 30000-30001",
		30000: "provided port is already allocated", 30001: ""} {
		got := ""
		if err := ports.allocate(n); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
