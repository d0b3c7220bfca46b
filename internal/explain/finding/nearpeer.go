package finding

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	policyrules "github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// nearPeer is a peer of a policy's rules that is the other side of a connection but for one thing:
// a sentence about its field, and what would mend it.
type nearPeer struct {
	text     string
	remedies []Remedy
}

// nearestPeer finds, in rules of policies that do not let a connection pass, the peer that was
// probably to be its other side.
func (c *Cluster) nearestPeer(over []*networkingv1.NetworkPolicy, w way) (nearPeer, bool) {
	for _, p := range over {
		side, key, lists := "egress", "to", [][]networkingv1.NetworkPolicyPeer(nil)
		for _, r := range p.Spec.Egress {
			lists = append(lists, r.To)
		}
		if w.side == networkingv1.PolicyTypeIngress {
			side, key, lists = "ingress", "from", nil
			for _, r := range p.Spec.Ingress {
				lists = append(lists, r.From)
			}
		}
		for i, list := range lists {
			for j, peer := range list {
				at := fmt.Sprintf("spec.%s[%d].%s[%d]", side, i, key, j)
				if n, ok := c.nearlyPeer(p, peer, w, at); ok {
					return n, true
				}
			}
		}
	}
	return nearPeer{}, false
}

// otherSide is the namespace of the other side of a connection, the labels of its Pods, and their
// addresses, as far as they are known.
func (w way) otherSide(c *Cluster) (ns string, own map[string]string, addresses []netip.Addr) {
	if w.side == networkingv1.PolicyTypeIngress {
		return w.ns, w.from.labels, nil
	}
	for i := range w.to.pods {
		own = w.to.pods[i].labels
		if a := c.addressOf(w.to.pods[i]); a.IsValid() {
			addresses = append(addresses, a)
		}
	}
	return w.to.namespace, own, addresses
}

// nearlyPeer tells in what one peer of a policy differs from the other side of a connection.
func (c *Cluster) nearlyPeer(p *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer, w way,
	at string) (nearPeer, bool) {
	ns, own, addresses := w.otherSide(c)
	if peer.IPBlock != nil {
		return exceptOf(peer.IPBlock, addresses, at)
	}
	podsMatch := peer.PodSelector == nil || own != nil && policyrules.Selects(peer.PodSelector, own)
	spaceMatches := peer.NamespaceSelector == nil && ns == p.Namespace ||
		peer.NamespaceSelector != nil && c.namespaceMatches(peer.NamespaceSelector, ns)
	switch {
	case ns == "" || podsMatch == spaceMatches:
		return nearPeer{}, false
	case podsMatch && peer.NamespaceSelector == nil:
		return nearPeer{text: fmt.Sprintf(" %s.podSelector has no namespaceSelector: it is about Pods of "+
			"namespace %s alone, and these are in %s.", at, p.Namespace, ns)}, true
	case podsMatch:
		return c.namespaceLabels(peer, ns, at)
	}
	d, ok := nearestLabels(wantedLabels(peer.PodSelector), []labelled{{labels: own}})
	if !ok {
		return nearPeer{}, false
	}
	return nearPeer{text: fmt.Sprintf(" %s.podSelector selects Pods with %s=%s, and these have %s=%s.", at,
		d.wantKey, d.wantValue, d.key, d.has)}, true
}

// namespaceLabels tells which labels a namespace lacks that a peer selects.
func (c *Cluster) namespaceLabels(peer networkingv1.NetworkPolicyPeer, ns, at string) (nearPeer, bool) {
	want, o := wantedLabels(peer.NamespaceSelector), c.Get(Object{Kind: "Namespace", Name: ns})
	if o == nil {
		return nearPeer{}, false
	}
	have := o.GetLabels()
	maps.DeleteFunc(want, func(k, v string) bool { return have[k] == v })
	if len(want) != 1 {
		return nearPeer{}, false
	}
	key := slices.Collect(maps.Keys(want))[0]
	is, there := have[key]
	says := "has no label " + key
	if there {
		says = fmt.Sprintf("has %s=%s", key, is)
	}
	self := objectOf("Namespace", o)
	return nearPeer{text: fmt.Sprintf(" %s.namespaceSelector selects namespaces with %s=%s, and "+
		"namespace %s %s.", at, key, want[key], ns, says), remedies: []Remedy{{Say: fmt.Sprintf("label namespace "+
		"%s %s=%s: all that selects namespaces so is then about it", ns, key, want[key]),
		Run: []string{kubectl(self, "label", "--overwrite "+key+"="+want[key])}}}}, true
}

// exceptOf tells which exception of a block has the addresses of the other side.
func exceptOf(b *networkingv1.IPBlock, addresses []netip.Addr, at string) (nearPeer, bool) {
	for _, a := range addresses {
		for i, text := range b.Except {
			if p, err := netip.ParsePrefix(text); err == nil && p.Contains(a) {
				return nearPeer{text: fmt.Sprintf(" %s.ipBlock lets %s pass except %s (except[%d]), which has the "+
					"address %s.", at, b.CIDR, text, i, a)}, true
			}
		}
	}
	return nearPeer{}, false
}
