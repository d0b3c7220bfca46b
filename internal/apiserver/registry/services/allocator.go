package services

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
)

// Allocator hands out cluster addresses and node ports. It is safe for use by many requests at
// once.
type Allocator struct {
	mu sync.Mutex
	// the server's own, one per address family, the default family first; then those of
	// ServiceCIDRs
	pools        []*ipPool
	ownPools     int // how many are the server's own
	ports        *portPool
	listServices func(context.Context) ([]v1.Service, error)
	initialized  bool
	ipStorage    IPAddressStorage // nil writes nothing down
	portStorage  NodePortStorage  // nil writes nothing down
	serviceCIDRs func(context.Context) ([]netip.Prefix, error)
	pick         func(int) int
}

// New makes an allocator over one or two service ranges (the first names the default family) and
// the node ports low to high, both included. list returns all stored Services; it is asked before
// the first write, so that what is stored is taken.
func New(cidrs []netip.Prefix, low, high int, list func(context.Context) ([]v1.Service, error)) (*Allocator, error) {
	if len(cidrs) == 0 || len(cidrs) > 2 {
		return nil, fmt.Errorf("service ranges: want one, or one per address family, got %d: name them as in "+
			"10.96.0.0/16", len(cidrs))
	}
	if low < 1 || high > 65535 || low > high {
		return nil, fmt.Errorf("node port range %d-%d: want two port numbers, the lower first", low, high)
	}
	a := &Allocator{ports: newPortPool(low, high, rand.IntN), listServices: list, pick: rand.IntN, ownPools: len(cidrs)}
	for _, c := range cidrs {
		a.pools = append(a.pools, newIPPool(c, rand.IntN))
	}
	if len(a.pools) == 2 && a.pools[0].family == a.pools[1].family {
		return nil, fmt.Errorf("service ranges %s and %s are of one address family: name one range per family",
			cidrs[0], cidrs[1])
	}
	return a, nil
}

// initialize takes what stored Services hold. Addresses outside the ranges (of an earlier
// configuration) are left alone.
func (a *Allocator) initialize(ctx context.Context) error {
	if a.initialized {
		return nil
	}
	all, err := a.listServices(ctx)
	if err != nil {
		return errors.NewInternalError(fmt.Errorf("list services to learn which addresses are taken: %w", err))
	}
	for i := range all {
		for _, ip := range all[i].Spec.ClusterIPs {
			a.markIP(ip)
		}
		for _, n := range allocatedNodePorts(&all[i]) {
			_ = a.ports.allocate(n)
		}
	}
	a.initialized = true
	return nil
}

// begin gives s what it lacks. The library asks for it before the strategy prepares and validates
// the object. finish(true) gives back what old had and s has not; finish(false) what was given.
// What a dry run shows is promised to nobody: it is free again at once.
func (a *Allocator) begin(ctx context.Context, s, old *v1.Service, dryRun bool) (finish func(ok bool), err error) {
	prepareAllocation(s, old)
	wanted := s.DeepCopy()
	const tries = 100 // addresses and ports that somebody else holds are met once each
	learned := false
	for range tries {
		t := &allocationTransaction{Allocator: a, dryRun: dryRun}
		err := t.allocateLocked(ctx, s, old)
		if !dryRun {
			t.countAttempts()
		}
		if err != nil {
			if !t.conflict || learned || a.ipStorage == nil {
				return nil, err
			}
			learned = true // another server may have given it back since
			a.reload()
			*s = *wanted.DeepCopy()
			continue
		}
		if dryRun {
			t.revert()
			return func(bool) {}, nil
		}
		leaked, err := t.store(ctx, s)
		if err == nil && leaked == nil {
			return func(ok bool) { t.finish(ctx, s, old, ok) }, nil
		}
		t.revert()
		if err != nil {
			return nil, errors.NewInternalError(err)
		}
		a.mu.Lock()
		leaked()
		a.mu.Unlock()
		*s = *wanted.DeepCopy()
	}
	return nil, errors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", errFull))
}

// allocateLocked is all that is decided under the lock; on an error nothing is taken.
func (t *allocationTransaction) allocateLocked(ctx context.Context, s, old *v1.Service) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.initialize(ctx); err != nil {
		return err
	}
	if needsClusterIP(s) {
		if err := t.addServiceCIDRs(ctx); err != nil {
			return errors.NewInternalError(fmt.Errorf("read the service CIDRs: %w", err))
		}
	}
	if err := t.allocateAll(s, old); err != nil {
		t.revertLocked()
		return err
	}
	t.updateMetrics()
	return nil
}

// revert gives back all that was taken.
func (t *allocationTransaction) revert() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revertLocked()
	t.updateMetrics()
}

func (t *allocationTransaction) finish(ctx context.Context, s, old *v1.Service, ok bool) {
	switch {
	case !ok:
		t.releaseStored(ctx, s, t.ips)
		t.releasePorts(ctx, t.ports)
		t.revert()
	case old != nil:
		t.releaseUnused(ctx, old, s)
	}
}

// releaseAll gives back all that a deleted Service held.
func (a *Allocator) releaseAll(s *v1.Service) {
	a.releaseUnused(context.Background(), s, &v1.Service{})
}

// releaseUnused gives back what s holds and kept does not: first in the allocator, so that nobody
// finds an address free that is still written down.
func (a *Allocator) releaseUnused(ctx context.Context, s, remaining *v1.Service) {
	var ips []string
	for _, ip := range s.Spec.ClusterIPs {
		if ip != v1.ClusterIPNone && ip != "" && !slices.Contains(remaining.Spec.ClusterIPs, ip) {
			ips = append(ips, ip)
		}
	}
	still := allocatedNodePorts(remaining)
	ports := slices.DeleteFunc(allocatedNodePorts(s), func(n int) bool { return slices.Contains(still, n) })
	a.releaseStored(ctx, s, ips)
	a.releasePorts(ctx, ports)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range ips {
		a.releaseIP(ip)
	}
	for _, n := range ports {
		a.ports.release(n)
	}
	a.updateMetrics()
}

// allocatedNodePorts are the node ports a Service holds, its health check's included, each once.
func allocatedNodePorts(s *v1.Service) []int {
	var out []int
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 && !slices.Contains(out, int(p.NodePort)) {
			out = append(out, int(p.NodePort))
		}
	}
	if s.Spec.HealthCheckNodePort != 0 {
		out = append(out, int(s.Spec.HealthCheckNodePort))
	}
	return out
}
