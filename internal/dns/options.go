package dns

import (
	"errors"
	"net"
	"net/netip"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// Options are what a server needs.
type Options struct {
	API    *rest.Config // of the cluster whose names these are
	Domain string       // of the cluster, such as cluster.local
	Listen Listen
	// Base are the settings below the ConfigMap's. Without upstreams those of ResolvConf count,
	// unless Alone.
	Base        plan.Settings
	ResolvConf  string // the node's resolver file; empty: none
	NoUpstreams bool   // asks nobody
	// Node is where the server is. Publish keeps the Service and the slice of this node, so that
	// others find it.
	Node    string
	Publish bool
	// Withdraw takes the slice away at the end, so that Pods of this node ask other nodes' servers
	// while this one is away.
	Withdraw     bool
	HTTPListener net.Listener // health and metrics; nil: not served
}

// Listen are the addresses of a server.
type Listen struct {
	// Cluster is the DNS address of the cluster. With a Link, the link gets it, and what comes in
	// by the link is answered there.
	Cluster netip.Addr
	Link    string
	// Release takes Cluster off the link at the end.
	Release bool
	// Bind is an address of the node where other nodes and the node itself ask; port 0 takes any.
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
