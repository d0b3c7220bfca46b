package services

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ports are Service ports "NUMBER/PROTOCOL:NODEPORT", the node port 0 if it is left out; the name
// is
// the place.
func ports(t testing.TB, texts string) (out []v1.ServicePort) {
	t.Helper()
	for i, text := range strings.Fields(texts) {
		p := v1.ServicePort{Name: fmt.Sprint("p", i), Protocol: v1.ProtocolTCP}
		number, node, _ := strings.Cut(text, ":")
		if number, found := strings.CutSuffix(number, "/UDP"); found {
			p.Protocol = v1.ProtocolUDP
			text = number
		}
		if _, err := fmt.Sscan(strings.TrimSuffix(number, "/UDP"), &p.Port); err != nil {
			t.Fatalf("%s: got error %v, want a number", text, err)
		}
		if node != "" {
			if _, err := fmt.Sscan(node, &p.NodePort); err != nil {
				t.Fatalf("%s: got error %v, want a number", node, err)
			}
		}
		out = append(out, p)
	}
	return out
}

func nodePortsOf(s *v1.Service) string {
	var out []string
	for _, p := range s.Spec.Ports {
		out = append(out, fmt.Sprint(p.NodePort))
	}
	return strings.Join(out, " ")
}

func balanced(allocate bool) func(*v1.Service) {
	return func(s *v1.Service) {
		s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = v1.ServiceTypeLoadBalancer, &allocate
	}
}

// Which node ports the ports of a new Service get: each number one, the one that any of its ports
// asks for, and what else a port asks for beside it. 30005 is somebody's.
func TestNodePortsOfANewService(t *testing.T) {
	const taken = `Service "s" is invalid: spec.ports[%d].nodePort: Invalid value: 30005: provided port is already ` +
		`allocated`
	for _, c := range []struct {
		ports, want string
		edit        func(*v1.Service)
	}{
		{ports: "80 81", want: "30000 30001", edit: nodePort},
		{ports: "53 53/UDP 54", want: "30000 30000 30001", edit: nodePort},
		{ports: "53 53/UDP:30007", want: "30007 30007", edit: nodePort},
		{ports: "53:30007 53/UDP", want: "30007 30007", edit: nodePort},
		{ports: "53:30007 53/UDP:30007", want: "30007 30007", edit: nodePort},
		{ports: "53:30007 53/UDP:30008", want: "30007 30008", edit: nodePort},
		{ports: "53:30007 54:30007", want: `Service "s" is invalid: spec.ports[1].nodePort: Invalid value: 30007: ` +
			`provided port is already allocated`, edit: nodePort},
		{ports: "53:30005", want: fmt.Sprintf(taken, 0), edit: nodePort},
		{ports: "53 53/UDP:30005", want: fmt.Sprintf(taken, 0), edit: nodePort},
		{ports: "53:30007 53/UDP:30005", want: fmt.Sprintf(taken, 1), edit: nodePort},
		{ports: "53 54", want: "30000 30001", edit: balanced(true)},
		{ports: "53 54", want: "0 0", edit: balanced(false)},
		{ports: "53 54:30007", want: "0 30007", edit: balanced(false)},
		{ports: "53 53/UDP:30007", want: "0 30007", edit: balanced(false)},
		{ports: "53 54", want: "0 0", edit: func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP }},
	} {
		a := families(t, "10.0.0.0/24")
		a.ports.pick = func(int) int { return 0 }
		if err := a.ports.allocate(30005); err != nil {
			t.Fatal(err)
		}
		s := service(c.edit, func(s *v1.Service) { s.Spec.Ports = ports(t, c.ports) })
		err := create(a, s)
		got := nodePortsOf(s)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s of type %s: got %s, want %s", c.ports, s.Spec.Type, got, c.want)
		}
		held := len(ports(t, c.ports))
		if free := freePorts(a); err != nil && free != 10 {
			t.Errorf("%s: got %d free ports after the refusal, want 10: what was taken is given back", c.ports, free)
		} else if want := 10 - len(allocatedNodePorts(s)); err == nil && free != want {
			t.Errorf("%s: got %d free ports of %d for %d ports, want %d", c.ports, free, 11, held, want)
		}
	}
}

func freePorts(a *Allocator) (n int) {
	for i := range a.ports.high - a.ports.low + 1 {
		if !a.ports.allocated.get(i) {
			n++
		}
	}
	return n
}

// An update keeps the node ports of its ports by their names, adds what is missing, takes what it
// asks for and gives back what it leaves.
func TestNodePortsOfAnUpdate(t *testing.T) {
	for _, c := range []struct {
		from, to, want string
		edit           func(*v1.Service)
		free           int
	}{
		{from: "80:30003 81:30004", to: "80 81", want: "30003 30004", edit: nodePort, free: 8},
		{from: "80:30003 81:30004", to: "80", want: "30003", edit: nodePort, free: 9},
		{from: "80:30003", to: "80 81", want: "30003 30000", edit: nodePort, free: 8},
		{from: "80:30003", to: "80 81:30003", want: "30000 30003", edit: nodePort, free: 8},
		{from: "80:30003", to: "80:30006", want: "30006", edit: nodePort, free: 9},
		{from: "80:30003", to: "80:30003 81/UDP:30003", want: "30003 30003", edit: nodePort, free: 9},
		{from: "80:30003", to: "80:30003 81:30003", want: "duplicate nodePort: {TCP 30003}", edit: nodePort, free: 9},
		{from: "80:30003", to: "80:30005", want: `Service "s" is invalid: spec.ports[0].nodePort: Invalid value: ` +
			`30005: provided port is already allocated`, edit: nodePort, free: 9},
		{from: "80:30003", to: "80:30003 81", want: "30003 0", edit: balanced(false), free: 9},
		{from: "80:30003", to: "80:30003", want: "0", free: 10,
			edit: func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP }},
	} {
		a := families(t, "10.0.0.0/24")
		a.ports.pick = func(int) int { return 0 }
		if err := a.ports.allocate(30005); err != nil {
			t.Fatal(err)
		}
		old := service(nodePort, func(s *v1.Service) { s.Spec.Ports = ports(t, c.from) })
		if err := create(a, old); err != nil {
			t.Fatal(err)
		}
		s := service(c.edit, func(s *v1.Service) { s.Spec.Ports = ports(t, c.to) })
		finish, err := a.begin(t.Context(), s, old, false)
		if err == nil {
			dropTypeDependentFields(s, old)
			finish(true)
		}
		got := nodePortsOf(s)
		if err != nil {
			got = err.Error()
		}
		if free := freePorts(a); got != c.want || free != c.free {
			t.Errorf("%s to %s: got %s and %d free ports, want %s and %d", c.from, c.to, got, free, c.want, c.free)
		}
	}
}

// The port for health checks is allocated where traffic stays local, kept by updates and given
// back.
func TestHealthCheckNodePorts(t *testing.T) {
	local := func(s *v1.Service) { s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal }
	asks := func(n int32) func(*v1.Service) { return func(s *v1.Service) { s.Spec.HealthCheckNodePort = n } }
	a := families(t, "10.0.0.0/24")
	a.ports.pick = func(int) int { return 0 }
	any := service(balanced(false), local)
	if err := create(a, any); err != nil || any.Spec.HealthCheckNodePort != 30000 {
		t.Fatalf("got port %d, error %v, want 30000", any.Spec.HealthCheckNodePort, err)
	}
	own := service(balanced(false), local, asks(30004))
	if err := create(a, own); err != nil || own.Spec.HealthCheckNodePort != 30004 || freePorts(a) != 9 {
		t.Errorf("got port %d, error %v, %d free; want 30004, none, 9", own.Spec.HealthCheckNodePort, err, freePorts(a))
	}
	const taken = "Internal error occurred: failed to allocate requested HealthCheck NodePort 30004: provided port " +
		"is already allocated"
	if err := create(a, service(balanced(false), local, asks(30004))); err == nil || err.Error() != taken {
		t.Errorf("got error %v, want %s", err, taken)
	}
	same := service(balanced(true), local, asks(30005), func(s *v1.Service) { s.Spec.Ports[0].NodePort = 30005 })
	if err := create(a, same); err != nil || freePorts(a) != 8 {
		t.Errorf("got error %v, %d free for a port that is the Service's own; want none, 8", err, freePorts(a))
	}
	again := service(balanced(false), local)
	finish, err := a.begin(t.Context(), again, own, false)
	if err != nil || again.Spec.HealthCheckNodePort != 30004 {
		t.Fatalf("got port %d, error %v, want that of the stored Service, 30004", again.Spec.HealthCheckNodePort, err)
	}
	finish(true)
	wide := service(balanced(false), asks(30004), func(s *v1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = own.Spec.ClusterIP, own.Spec.ClusterIPs
	})
	finish, err = a.begin(t.Context(), wide, own, false)
	if err != nil {
		t.Fatal(err)
	}
	dropTypeDependentFields(wide, own)
	if finish(true); wide.Spec.HealthCheckNodePort != 0 || freePorts(a) != 9 {
		t.Errorf("got port %d, %d free where traffic does not stay local; want 0, 9", wide.Spec.HealthCheckNodePort,
			freePorts(a))
	}
	plain := service(balanced(false), asks(7))
	if err := create(a, plain); err != nil || plain.Spec.HealthCheckNodePort != 7 || freePorts(a) != 9 {
		t.Errorf("got port %d, error %v, %d free without the policy; want 7 as it was, none, 9",
			plain.Spec.HealthCheckNodePort, err, freePorts(a))
	}
	for range 9 {
		if _, err := a.ports.allocateNext(); err != nil {
			t.Fatal(err)
		}
	}
	const full = "Internal error occurred: failed to allocate a HealthCheck NodePort: range is full"
	if err := create(a, service(balanced(false), local)); err == nil || err.Error() != full {
		t.Errorf("got error %v, want %s", err, full)
	}
	const fullPorts = "Internal error occurred: failed to allocate a nodePort: range is full"
	if err := create(a, service(nodePort)); err == nil || err.Error() != fullPorts {
		t.Errorf("got error %v, want %s", err, fullPorts)
	}
}

// What a change of type takes away: what the stored Service has for its type and the request
// repeats. What the request changes stays, for validation to refuse.
func TestWhatAChangeOfTypeTakesAway(t *testing.T) {
	stored := func() *v1.Service {
		s := service(balanced(true), func(s *v1.Service) {
			s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = v1.ServiceExternalTrafficPolicyLocal, 30001
			s.Spec.LoadBalancerClass, s.Spec.Ports[0].NodePort = new("a/b"), 30002
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
			s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []v1.IPFamily{"IPv4"}, new(v1.IPFamilyPolicySingleStack)
		})
		s.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "1.2.3.4"}}
		return s
	}
	for _, c := range []struct {
		name string
		to   v1.ServiceType
		edit func(*v1.ServiceSpec)
		want string
	}{
		{"the same", v1.ServiceTypeLoadBalancer, nil,
			"10.0.0.1 [10.0.0.1] [IPv4] SingleStack Cluster 30002 30001 true a/b Local 1"},
		{"a node port", v1.ServiceTypeNodePort, nil,
			"10.0.0.1 [10.0.0.1] [IPv4] SingleStack Cluster 30002 0 nil nil Local 0"},
		{"a cluster IP", v1.ServiceTypeClusterIP, nil,
			"10.0.0.1 [10.0.0.1] [IPv4] SingleStack Cluster 0 0 nil nil  0"},
		{"a name", v1.ServiceTypeExternalName, nil, " [] [] nil nil 0 0 nil nil  0"},
		{"changed too", v1.ServiceTypeExternalName, func(s *v1.ServiceSpec) {
			s.ClusterIP, s.IPFamilies = "10.0.0.2", []v1.IPFamily{"IPv6"}
			s.IPFamilyPolicy = new(v1.IPFamilyPolicyPreferDualStack)
			s.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyLocal)
			s.Ports[0].NodePort, s.HealthCheckNodePort = 30009, 30008
			s.AllocateLoadBalancerNodePorts, s.LoadBalancerClass = new(false), new("c/d")
			s.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyCluster
		}, "10.0.0.2 [10.0.0.1] [IPv6] PreferDualStack Local 30009 30008 false c/d Cluster 0"},
		{"another list", v1.ServiceTypeExternalName, func(s *v1.ServiceSpec) { s.ClusterIPs = []string{"10.0.0.3"} },
			"10.0.0.1 [10.0.0.3] [] nil nil 0 0 nil nil  0"},
	} {
		old, s := stored(), stored()
		if s.Spec.Type = c.to; c.edit != nil {
			c.edit(&s.Spec)
		}
		dropTypeDependentFields(s, old)
		p := &s.Spec
		got := fmt.Sprint(p.ClusterIP, " ", p.ClusterIPs, " ", p.IPFamilies, " ", text(p.IPFamilyPolicy), " ",
			text(p.InternalTrafficPolicy), " ", p.Ports[0].NodePort, " ", p.HealthCheckNodePort, " ",
			text(p.AllocateLoadBalancerNodePorts), " ", text(p.LoadBalancerClass), " ", p.ExternalTrafficPolicy, " ",
			len(s.Status.LoadBalancer.Ingress))
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func text[T any](p *T) string {
	if p == nil {
		return "nil"
	}
	return fmt.Sprint(*p)
}

// What a request leaves out of what is allocated is taken from the stored Service, where both types
// have it; clusterIP and clusterIPs follow each other.
func TestWhatARequestLeavesOut(t *testing.T) {
	name := func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeExternalName }
	for _, c := range []struct {
		name           string
		stored, asked  string // clusterIP, a colon, clusterIPs; stored empty: a creation
		from, to       func(*v1.Service)
		want, portWant string
	}{
		{name: "new", asked: "10.0.0.1:", want: "10.0.0.1:10.0.0.1"},
		{name: "new, both", asked: "10.0.0.1:10.0.0.2", want: "10.0.0.1:10.0.0.2"},
		{name: "new, the list", asked: ":10.0.0.2", want: ":10.0.0.2"},
		{name: "new, neither", asked: ":", want: ":"},
		{name: "neither", stored: "10.0.0.1:10.0.0.1", asked: ":", want: "10.0.0.1:10.0.0.1"},
		{name: "the one", stored: "10.0.0.1:10.0.0.1 fd00::1", asked: "10.0.0.1:", want: "10.0.0.1:10.0.0.1 fd00::1"},
		{name: "another one", stored: "10.0.0.1:10.0.0.1", asked: "10.0.0.2:", want: "10.0.0.2:"},
		{name: "another one of the same list", stored: "10.0.0.1:10.0.0.1", asked: "10.0.0.2:10.0.0.1",
			want: "10.0.0.2:10.0.0.2"},
		{name: "another list", stored: "10.0.0.1:10.0.0.1", asked: "10.0.0.1:10.0.0.2", want: "10.0.0.1:10.0.0.2"},
		{name: "a name, with the address", stored: "10.0.0.1:10.0.0.1", asked: "10.0.0.1:10.0.0.1", to: name,
			want: "10.0.0.1:10.0.0.1"},
		{name: "a name, without", stored: "10.0.0.1:10.0.0.1", asked: ":10.0.0.1", to: name, want: ":"},
		{name: "a name, without both", stored: "10.0.0.1:10.0.0.1", asked: ":", to: name, want: ":"},
		{name: "of a name", stored: ":", asked: ":", from: name, want: ":"},
	} {
		split := func(s *v1.Service, both string) {
			one, list, _ := strings.Cut(both, ":")
			if strings.Contains(one, "fd00") {
				one, list = both, ""
			}
			s.Spec.ClusterIP, s.Spec.ClusterIPs = one, strings.Fields(list)
			if len(s.Spec.ClusterIPs) == 0 {
				s.Spec.ClusterIPs = nil
			}
		}
		s := service()
		split(s, c.asked)
		if c.to != nil {
			c.to(s)
		}
		var old *v1.Service
		if c.stored != "" {
			old = service()
			split(old, c.stored)
			if c.from != nil {
				c.from(old)
			}
		}
		prepareAllocation(s, old)
		if got := s.Spec.ClusterIP + ":" + strings.Join(s.Spec.ClusterIPs, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// brokenStorage fails to store the address or the ports given.
type brokenStorage struct {
	fakeIPAddressStorage
	err      error
	released []string
}

func (b *brokenStorage) Allocate(_ context.Context, a *networkingv1.IPAddress) error {
	if b.err != nil && strings.HasPrefix(a.Name, "fd00") {
		return b.err
	}
	return nil
}

func (b *brokenStorage) Release(ctx context.Context, a *networkingv1.IPAddress) error {
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > releaseTimeout || ctx.Err() != nil {
		return errors.New("no deadline")
	}
	b.released = append(b.released, a.Name+" of "+a.Spec.ParentRef.Namespace+"/"+a.Spec.ParentRef.Name)
	return nil
}

// When the second address, or a node port, cannot be written down, the first is removed again, also
// for a request that has gone away, and the memory forgets all.
func TestWhatCannotBeWrittenDown(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ips, ports error
		want       string
		released   []string
	}{
		{nil, nil, "", nil},
		{errors.New("no store"), nil, "Internal error occurred: failed to allocate a serviceIP: no store",
			[]string{"10.0.0.17 of n/s"}},
		{nil, errors.New("no map"), "Internal error occurred: failed to allocate a nodePort: no map",
			[]string{"10.0.0.17 of n/s", "fd00::11 of n/s"}},
	} {
		a, b := families(t, "10.0.0.0/24", "fd00::/120"), &brokenStorage{err: c.ips}
		a.UseIPAddressStorage(b, nil)
		a.UseNodePortStorage(brokenPorts{c.ports})
		s := service(nodePort, func(s *v1.Service) {
			s.Namespace, s.Spec.IPFamilyPolicy = "n", new(v1.IPFamilyPolicyRequireDualStack)
		})
		got := ""
		_, err := a.begin(gone, s, nil, false)
		if err != nil {
			got = err.Error()
		}
		if got != c.want || !slices.Equal(b.released, c.released) {
			t.Errorf("got error %q, released %q; want %q, %q", got, b.released, c.want, c.released)
		}
		if free := freePorts(a); (err == nil) != (free == 10) || (err != nil) != (free == 11) {
			t.Errorf("error %v: got %d free ports, want 10 of 11 without an error, 11 with one", err, free)
		}
		for _, p := range a.pools {
			if taken := p.allocated.get(p.static); taken != (err == nil) {
				t.Errorf("error %v: the address of %s is taken: %v, want %v", err, p.prefix, taken, err == nil)
			}
		}
	}
}

type brokenPorts struct{ err error }

func (b brokenPorts) Allocate(context.Context, []int) error { return b.err }
func (b brokenPorts) Release(context.Context, []int) error  { return b.err }

// A range of a ServiceCIDR is used while it is there: after the server's own, with what stored
// Services have of it. Without ranges to read nothing is given.
func TestFurtherRanges(t *testing.T) {
	stored := []v1.Service{*service(func(s *v1.Service) { s.Spec.ClusterIPs = []string{"10.1.0.1"} })}
	a, err := New([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/30")}, 1, 2,
		func(context.Context) ([]v1.Service, error) { return stored, nil })
	if err != nil {
		t.Fatal(err)
	}
	further, broken := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("10.1.0.7/29")},
		error(nil)
	a.UseIPAddressStorage(&fakeIPAddressStorage{entries: map[string]string{}},
		func(context.Context) ([]netip.Prefix, error) { return further, broken })
	var got []string
	for range 7 {
		s := service()
		if err := create(a, s); err != nil {
			t.Fatal(err)
		}
		got = append(got, s.Spec.ClusterIP)
	}
	slices.Sort(got[:2])
	slices.Sort(got[2:])
	if want := []string{"10.0.0.1", "10.0.0.2", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5",
		"10.1.0.6"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q: the own range first, and none that a stored Service has", got, want)
	}
	const full = "Internal error occurred: failed to allocate a serviceIP: range is full"
	if err := create(a, service()); err == nil || err.Error() != full {
		t.Errorf("got error %v, want %s", err, full)
	}
	a.ReleaseOrphaned("10.1.0.4")
	further = further[:1]
	if err := create(a, service()); err == nil || err.Error() != full {
		t.Errorf("the range is gone: got error %v, want %s", err, full)
	}
	asked := service(func(s *v1.Service) { s.Spec.ClusterIP = "10.1.0.4" })
	const notThere = `Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.1.0.4"]: failed to allocate IP ` +
		`10.1.0.4: the provided network does not match the current range`
	if err := create(a, asked); err == nil || err.Error() != notThere {
		t.Errorf("got error %v, want %s", err, notThere)
	}
	broken = errors.New("no list")
	if err := create(a, service()); err == nil || err.Error() !=
		"Internal error occurred: read the service CIDRs: no list" {
		t.Errorf("got error %v, want Internal error occurred: read the service CIDRs: no list", err)
	}
}

// A ServiceCIDR that is being deleted is held while an address of it has no other range.
func TestSyncServiceCIDRByItsState(t *testing.T) {
	now, other := metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour))
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: status, LastTransitionTime: other}}
	}
	range1 := func(name, cidr string, deleted bool) networkingv1.ServiceCIDR {
		c := networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr, "none"}}}
		if deleted {
			c.DeletionTimestamp = &now
		}
		return c
	}
	for _, c := range []struct {
		name            string
		deleted, held   bool
		conditions      []metav1.Condition
		ips             []string
		others          []networkingv1.ServiceCIDR
		status          string // of the condition that is written; empty: none
		finalizers      string
		written, blocks bool // finalizers
	}{
		{name: "new", finalizers: "a " + rangeFinalizer, written: true},
		{name: "held", held: true, status: "True  " + readyMessage},
		{name: "not ready", held: true, conditions: condition("False"), status: "True  " + readyMessage},
		{name: "ready", held: true, conditions: condition("True")},
		{name: "deleted, not held", deleted: true},
		{name: "deleted", deleted: true, held: true, finalizers: "a", written: true},
		{name: "in use", deleted: true, held: true, ips: []string{"10.1.0.3"}, blocks: true,
			status: "False Terminating " + terminatingMessage},
		{name: "in use and ready", deleted: true, held: true, ips: []string{"x", "10.1.0.3"}, blocks: true,
			conditions: condition("True"), status: "False Terminating " + terminatingMessage},
		{name: "in use and said so", deleted: true, held: true, ips: []string{"10.1.0.3"}, blocks: true,
			conditions: condition("False")},
		{name: "another's address", deleted: true, held: true, ips: []string{"10.2.0.3"}, finalizers: "a",
			written: true},
		{name: "also of another range", deleted: true, held: true, ips: []string{"10.1.0.3"}, finalizers: "a",
			written: true, others: []networkingv1.ServiceCIDR{range1("c", "10.1.0.0/29", true),
				range1("wide", "10.1.0.0/16", false)}},
		{name: "also of one that goes", deleted: true, held: true, ips: []string{"10.1.0.3"}, blocks: true,
			others: []networkingv1.ServiceCIDR{range1("wide", "10.1.0.0/16", true)},
			status: "False Terminating " + terminatingMessage},
	} {
		one := range1("c", "10.1.0.0/29", c.deleted)
		if one.Finalizers = []string{"a"}; c.held {
			one.Finalizers = append(one.Finalizers, rangeFinalizer)
		}
		one.Status.Conditions = c.conditions
		w := ServiceCIDRState{CIDRs: append([]networkingv1.ServiceCIDR{one}, c.others...)}
		for _, ip := range c.ips {
			w.IPAddresses = append(w.IPAddresses, networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip}})
		}
		next, blocked := SyncServiceCIDR(&one, w, now)
		status := ""
		if next.Status != nil {
			r := next.Status.Status.Conditions[0]
			status = strings.Join([]string{string(r.Status), r.Reason, r.Message}, " ")
			if r.Type != "Ready" || !r.LastTransitionTime.Equal(&now) {
				t.Errorf("%s: got condition %+v, want Ready, changed now", c.name, r)
			}
		}
		finalizers := ""
		if next.Finalizers != nil {
			finalizers = strings.Join(next.Finalizers.Finalizers, " ")
		}
		if status != c.status || finalizers != c.finalizers || (next.Finalizers != nil) != c.written ||
			blocked != c.blocks {
			t.Errorf("%s: got condition %q, finalizers %q (%v), blocked %v; want %q, %q (%v), %v", c.name, status,
				finalizers, next.Finalizers != nil, blocked, c.status, c.finalizers, c.written, c.blocks)
		}
	}
}
