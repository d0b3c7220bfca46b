package rules

import (
	"net/netip"
	"slices"
)

// LookupQuery is how a packet comes to a Service port.
type LookupQuery struct {
	To       netip.Addr // the address asked for
	NodePort bool       // asked for at a node's own address and the node port
	// FromCluster: the sender is a Pod, or this node itself. Only they need not heed
	// externalTrafficPolicy LocalTrafficDetector.
	FromCluster bool
	From        netip.Addr // the sender; invalid when it is not known
}

// Action is what the rules do with a packet.
type Action string

// What becomes of a packet.
const (
	Forward Action = "lead"   // to one of the endpoints
	Reject  Action = "reject" // refused: there is no endpoint at all
	// no answer: there are endpoints, only not on this node, or the sender's address is not let in
	Drop Action = "drop"
	Pass Action = "pass" // the rules have nothing to do with it
)

// LookupResult is the answer to a LookupQuery.
type LookupResult struct {
	Action       Action
	Endpoints    []Endpoint // those that are chosen from, for Forward
	LocalOnly    bool       // only this node's endpoints count here
	SourceDenied bool       // for Drop: by loadBalancerSourceRanges
}

// Lookup says what the port's rules do with a packet: what State writes, as a value.
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
