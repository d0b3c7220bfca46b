package network

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"

	"github.com/gantry-project/gantry/internal/network/ipam"
)

// Auditor finds and releases leaked addresses, links and host ports, as a killed plugin or runtime
// leaves them. One goroutine may use it at a time.
type Auditor struct {
	config                 Config
	sandboxes              func(context.Context) (map[string]bool, error)
	missedAudits           map[string]int
	leasesGauge, leftGauge prometheus.Gauge
	freed                  prometheus.Counter
}

// NewAuditor returns an auditor for the network that c describes. sandboxes lists the runtime's
// sandboxes by id, true if ready; if it is nil or fails, no address is released.
func NewAuditor(c Config, sandboxes func(context.Context) (map[string]bool, error)) *Auditor {
	const space = "gantry_network"
	return &Auditor{
		config: c, sandboxes: sandboxes,
		leasesGauge: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: "leases",
			Help: "Addresses that Pods of this node hold"}),
		leftGauge: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: "addresses_free",
			Help: "Addresses that are left of the node's fullest range"}),
		freed: prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Name: "leases_freed_total",
			Help: "Addresses that nobody held any more and that an audit gave back"}),
	}
}

// Collectors returns the auditor's metrics.
func (a *Auditor) Collectors() []prometheus.Collector {
	return []prometheus.Collector{a.leasesGauge, a.leftGauge, a.freed}
}

// Report is the result of one audit.
type Report struct {
	ipam.Findings
	// LeaseCount is the number of leases left, Free the number of addresses left in the fullest
	// range.
	LeaseCount int
	Free       float64
	// Restored: another program had removed the instance's nftables table; it exists again.
	Restored bool
}

// Audit audits once and releases what it finds. It does nothing if the network is not Gantry's. Its
// report is valid also with an error.
func (a *Auditor) Audit(ctx context.Context) (Report, error) {
	var r Report
	s, err := a.config.settings()
	if err != nil {
		return r, err
	}
	installed, err := configured(filepath.Join(s.confDir, confName), s.id)
	if err != nil || installed.Bridge == "" {
		return r, err
	}
	s.bridge, s.ranges, s.cluster = installed.Bridge, installed.Ranges, installed.Cluster
	seen := ipam.HostState{NetnsGone: func(path string) bool { return ns.IsNSorErr(path) != nil }}
	var unasked, unfree error // releases are stored, whatever else failed
	if a.sandboxes != nil {
		seen.Sandboxes, unasked = a.sandboxes(ctx)
	}
	lacks := !hasTable(ctx, s.id) // runs a program: not under the lock, for which ADD and DEL wait
	err = s.store.Update(func(b *ipam.Allocations) error {
		if seen.Links, err = bridgePorts(s.bridge); err != nil {
			return err
		}
		if r.Findings, a.missedAudits = b.Audit(seen, a.missedAudits); !r.Empty() {
			r.Leases, unfree = releaseFindings(ctx, s, b, r.Findings)
		}
		a.freed.Add(float64(len(r.Leases)))
		if r.LeaseCount = len(b.Leases); lacks && !hasTable(ctx, s.id) { // it may have been made since
			r.Restored = true
			unfree = errors.Join(unfree, nft(ctx, ruleset(s, b.Leases)))
		}
		r.Free = b.Free(s.ranges)
		a.leasesGauge.Set(float64(r.LeaseCount))
		a.leftGauge.Set(r.Free)
		return nil
	})
	return r, errors.Join(unasked, unfree, err)
}

// releaseFindings detaches what was found and returns the released leases; those that fail are left
// for the next audit.
func releaseFindings(ctx context.Context, s settings, b *ipam.Allocations,
	f ipam.Findings) (freed []ipam.Lease, err error) {
	var errs []error
	for _, l := range f.Leases {
		if err := Detach(ctx, s.id, l); err != nil {
			errs = append(errs, err)
			continue
		}
		b.Release(l.Container, l.Interface)
		freed = append(freed, l)
	}
	for _, name := range f.Links {
		errs = append(errs, RemoveLink(name))
	}
	if err := errors.Join(errs...); err != nil {
		return freed, fmt.Errorf("audit of the Pod network: %w", err)
	}
	return freed, nil
}

// Detach closes a lease's host ports and deletes its link. It succeeds if there is nothing left to
// do.
func Detach(ctx context.Context, id string, l ipam.Lease) error {
	if len(l.Ports) > 0 {
		if err := ClosePorts(ctx, id, l); err != nil {
			return err
		}
	}
	return RemoveLink(l.Link)
}

// RemoveLink deletes an interface; it succeeds if there is none of that name.
func RemoveLink(name string) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		return deleteLink(link)
	}
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		return nil
	}
	return fmt.Errorf("remove interface %s: %w", name, err)
}

// bridgePorts returns the names of the veth interfaces on the bridge.
func bridgePorts(bridge string) ([]string, error) {
	master, err := netlink.LinkByName(bridge)
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("interface %s: %w", bridge, err)
	}
	links, err := DumpWithRetry(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []string
	for _, l := range links {
		if l.Attrs().MasterIndex == master.Attrs().Index && l.Type() == "veth" {
			out = append(out, l.Attrs().Name)
		}
	}
	return out, nil
}
