package rules

import (
	"net/netip"
	"slices"
)

// Way is how a packet comes to a Service port.
type Way struct {
	To       netip.Addr // the address asked for
	NodePort bool       // asked for at a node's own address and the node port
	// Inside: the sender is a Pod, or this node itself. Only they need not heed externalTrafficPolicy Local.
	Inside bool
	From   netip.Addr // the sender; invalid when it is not known
}

// End is what the rules do with a packet.
type End string

// What becomes of a packet.
const (
	Lead   End = "lead"   // to one of the endpoints
	Reject End = "reject" // refused: there is no endpoint at all
	Drop   End = "drop"   // no answer: there are endpoints, only not on this node, or the sender's address is not let in
	Pass   End = "pass"   // the rules have nothing to do with it
)

// Found is the answer to a Way.
type Found struct {
	End       End
	Endpoints []Endpoint // those that are chosen from, for Lead
	Local     bool       // only this node's endpoints count here
	Barred    bool       // for Drop: by loadBalancerSourceRanges
}

// Look says what the port's rules do with a packet: what State writes, as a value.
func (p Port) Look(w Way) Found {
	external := w.NodePort || slices.Contains(p.At.External, w.To) || slices.Contains(p.At.LoadBalancers, w.To)
	switch {
	case w.NodePort && p.NodePort == 0 || !external && w.To != p.At.Cluster:
		return Found{End: Pass}
	case slices.Contains(p.At.LoadBalancers, w.To) && p.barred(w.From):
		return Found{End: Drop, Barred: true}
	case !external:
		return p.found(p.InternalLocal)
	case p.ExternalLocal && w.Inside && len(p.Cluster) > 0:
		return p.found(false)
	}
	return p.found(p.ExternalLocal)
}

func (p Port) barred(from netip.Addr) bool {
	return p.At.Sources != nil && from.IsValid() && !slices.ContainsFunc(p.At.Sources, func(r netip.Prefix) bool { return r.Contains(from) })
}

func (p Port) found(local bool) Found {
	f := Found{End: Lead, Endpoints: p.Cluster, Local: local}
	if local {
		f.Endpoints = p.Local
	}
	switch {
	case len(f.Endpoints) > 0:
	case p.Any:
		f.End = Drop
	default:
		f.End = Reject
	}
	return f
}
