package routes

import (
	"net/netip"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/test/wrappers"
)

func clusterNode(change func(*v1.Node)) *v1.Node {
	n := wrappers.MakeNode().Name("a").Obj()
	n.Spec.PodCIDRs = []string{"10.1.0.0/24"}
	n.Annotations = map[string]string{VTEPAnnotation: "02:00:00:00:00:01", ReachabilityAnnotation: "auto 192.0.2.0/24"}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "a"},
		{Type: v1.NodeExternalIP, Address: "198.51.100.1"}, {Type: v1.NodeInternalIP, Address: "192.0.2.1"},
		{Type: v1.NodeInternalIP, Address: "192.0.2.2"}, {Type: v1.NodeInternalIP, Address: "2001:db8::1"}}
	if change != nil {
		change(n)
	}
	return n
}

func TestNodeOf(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}
	got := NodeOf(clusterNode(nil), ranges)
	if got.Name != "a" || !slices.Equal(got.Ranges, ranges) {
		t.Errorf("got the name %q and the ranges %v, want a and %v", got.Name, got.Ranges, ranges)
	}
	if got.Address.String() != "192.0.2.1" || got.OtherAddress.String() != "2001:db8::1" {
		t.Errorf("got the addresses %s and %s, want the first internal one and the first of the other family",
			got.Address, got.OtherAddress)
	}
	if got.VTEP.String() != "02:00:00:00:00:01" || got.Reachability == nil ||
		got.Reachability.String() != "auto 192.0.2.0/24" {
		t.Errorf("got the VTEP %s and the reachability %v, want those of the annotations", got.VTEP, got.Reachability)
	}
	got = NodeOf(clusterNode(func(n *v1.Node) {
		n.Annotations = map[string]string{VTEPAnnotation: "none", ReachabilityAnnotation: "?"}
		n.Status.Addresses = nil
	}), nil)
	if got.VTEP != nil || got.Reachability != nil || got.Address.IsValid() || got.OtherAddress.IsValid() {
		t.Errorf("a Node that says nothing: got %+v, want neither address, VTEP nor reachability", got)
	}
}

func TestAffectsRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1.Node)
		want   bool
	}{
		"a heartbeat and a label": {func(n *v1.Node) {
			n.Labels = map[string]string{"x": "y"}
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		}, false},
		"an external address":            {func(n *v1.Node) { n.Status.Addresses[1].Address = "198.51.100.9" }, false},
		"a second address of one family": {func(n *v1.Node) { n.Status.Addresses[3].Address = "192.0.2.3" }, false},
		"its range":                      {func(n *v1.Node) { n.Spec.PodCIDRs[0] = "10.1.1.0/24" }, true},
		"its address":                    {func(n *v1.Node) { n.Status.Addresses[2].Address = "192.0.2.9" }, true},
		"its other address":              {func(n *v1.Node) { n.Status.Addresses[4].Address = "2001:db8::9" }, true},
		"its VXLAN device": {func(n *v1.Node) {
			n.Annotations[VTEPAnnotation] = "02:00:00:00:00:02"
		}, true},
		"its reachability": {func(n *v1.Node) { delete(n.Annotations, ReachabilityAnnotation) }, true},
	} {
		if got := AffectsRoutes(clusterNode(nil), clusterNode(c.change)); got != c.want {
			t.Errorf("%s changes: got %t, want %t", name, got, c.want)
		}
	}
}
