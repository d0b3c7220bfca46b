package rules

import (
	"net/netip"
	"slices"
)

// LookupQuery describes a packet to a Service port.
type LookupQuery struct {
	To       netip.Addr // destination address
	NodePort bool       // sent to an address of the node and the node port
	// FromCluster: the sender is a Pod or this node itself, for which externalTrafficPolicy Local
	// does not apply.
	FromCluster bool
	From        netip.Addr // source address; invalid: not known
}

// Action is what the rules do with a packet.
type Action string

// Actions.
const (
	Forward Action = "lead"   // sent to one of the endpoints
	Reject  Action = "reject" // rejected: there is no endpoint at all
	// dropped: there are endpoints, but not on this node, or the source address is not allowed
	Drop Action = "drop"
	Pass Action = "pass" // not matched by the rules
)

// LookupResult is the answer to a LookupQuery.
type LookupResult struct {
	Action       Action
	Endpoints    []Endpoint // the candidates, for Forward
	LocalOnly    bool       // a traffic policy limits the choice to this node's endpoints
	SourceDenied bool       // for Drop: by loadBalancerSourceRanges
}

// Lookup returns what the rules written by State do with a packet, for explanations.
func (p ServicePort) Lookup(w LookupQuery) LookupResult {
	external := w.NodePort || slices.Contains(p.Addresses.External, w.To) || slices.Contains(p.Addresses.LoadBalancers,
		w.To)
	switch {
	case w.NodePort && p.NodePort == 0 || !external && w.To != p.Addresses.Cluster:
		return LookupResult{Action: Pass}
	case slices.Contains(p.Addresses.LoadBalancers, w.To) && p.sourceDenied(w.From):
		return LookupResult{Action: Drop, SourceDenied: true}
	case !external:
		return p.lookupResult(p.InternalLocal)
	case p.ExternalLocal && w.FromCluster && len(p.ClusterEndpoints) > 0:
		return p.lookupResult(false)
	}
	return p.lookupResult(p.ExternalLocal)
}

func (p ServicePort) sourceDenied(from netip.Addr) bool {
	return p.Addresses.Sources != nil && from.IsValid() && !slices.ContainsFunc(p.Addresses.Sources,
		func(r netip.Prefix) bool { return r.Contains(from) })
}

// lookupResult is what the rules do with a packet, over all endpoints or the node's own (local):
// forward it, drop it if only other nodes have endpoints, reject it if nobody has.
func (p ServicePort) lookupResult(local bool) LookupResult {
	f := LookupResult{Action: Forward, Endpoints: p.ClusterEndpoints, LocalOnly: local}
	if local {
		f.Endpoints = p.LocalEndpoints
	}
	switch {
	case len(f.Endpoints) > 0:
	case p.AnyEndpoint:
		f.Action = Drop
	default:
		f.Action = Reject
	}
	return f
}
