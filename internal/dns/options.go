package dns

import (
	"errors"
	"net"
	"net/netip"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// Options configure a Server.
type Options struct {
	API    *rest.Config // of the cluster whose names are served
	Domain string       // the cluster domain, such as cluster.local
	Listen Listen
	// Base are the settings that the ConfigMap overrides. Without upstreams the nameservers of
	// ResolvConf are used, unless NoUpstreams.
	Base        plan.Settings
	ResolvConf  string // the node's resolver file; empty: none
	NoUpstreams bool   // do not ask other servers
	// Node is the name of this node. Publish maintains the Service and this node's EndpointSlice,
	// so that others find the server.
	Node    string
	Publish bool
	// Withdraw deletes the EndpointSlice at the end, so that clients use the servers of other nodes
	// while this one is down.
	Withdraw     bool
	HTTPListener net.Listener // health and metrics; nil: not served
}

// Listen are the addresses of a server.
type Listen struct {
	// Cluster is the cluster's DNS address. With a Link it is added to the link, and only queries
	// that arrive there are answered.
	Cluster netip.Addr
	Link    string
	// Release removes Cluster from the link at the end.
	Release bool
	// Bind is the node's address at which other nodes and the node itself ask; port 0 takes any.
	Bind netip.AddrPort
}

func (o Options) check() error {
	switch {
	case o.API == nil:
		return errors.New("dns: no API server is given (API)")
	case o.Domain == "":
		return errors.New("dns: the cluster has no domain (Domain); cluster.local is usual")
	case !o.Listen.Bind.IsValid() && o.Listen.Link == "":
		return errors.New("dns: no address to listen on (Listen): give Bind, or Link with Cluster")
	case o.Listen.Link != "" && !o.Listen.Cluster.IsValid(), o.Publish && !o.Listen.Cluster.IsValid():
		return errors.New("dns: the cluster DNS address is not given (Listen.Cluster)")
	case o.Publish && !o.Listen.Bind.IsValid():
		return errors.New("dns: only a server with an address of the node can be published (Listen.Bind)")
	}
	return nil
}
