package services

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Allocator allocates cluster IPs and node ports. Safe for concurrent use.
type Allocator struct {
	mu sync.Mutex
	// of the configured ranges, one per address family, the default family first; then those of
	// ServiceCIDRs
	pools        []*ipPool
	ownPools     int // number of configured ranges
	ports        *portPool
	listServices func(context.Context) ([]v1.Service, error)
	initialized  bool
	ipStorage    IPAddressStorage // nil: allocations are not stored
	portStorage  NodePortStorage  // nil: allocations are not stored
	serviceCIDRs func(context.Context) ([]netip.Prefix, error)
	pick         func(int) int
}

// New returns an allocator for one or two service ranges (the first is the default family) and the
// node ports from low to high inclusive. list returns all stored Services; it is called before the
// first allocation, so that theirs are taken. Errors name the wrong option.
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

// initialize marks what stored Services have as allocated, once. Addresses outside the ranges (of
// an earlier configuration) are ignored.
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

// begin allocates what s lacks; old is nil for a create. It is the kind's BeginCreate and
// BeginUpdate hook, so it runs before the strategy. finish(true) releases what old had and s has
// not; finish(false) what was allocated. A dry run's allocations are released at once. Errors are
// API errors.
func (a *Allocator) begin(ctx context.Context, s, old *v1.Service, dryRun bool) (finish func(ok bool), err error) {
	prepareAllocation(s, old)
	wanted := s.DeepCopy()
	const tries = 100 // each address or port that another server has allocated costs one try
	learned := false
	for range tries {
		t := &allocationTransaction{Allocator: a}
		err := t.allocateLocked(ctx, s, old)
		if !dryRun {
			t.countAttempts()
		}
		if err != nil {
			if !t.conflict || learned || a.ipStorage == nil {
				return nil, err
			}
			learned = true // another server may have released it meanwhile
			a.reload()
			*s = *wanted.DeepCopy()
			continue
		}
		if dryRun {
			t.revert()
			return func(bool) {}, nil
		}
		markAllocated, err := t.store(ctx, s)
		if err == nil && markAllocated == nil {
			return func(ok bool) { t.finish(ctx, s, old, ok) }, nil
		}
		t.revert()
		if err != nil {
			return nil, errors.NewInternalError(err)
		}
		a.mu.Lock()
		markAllocated()
		a.mu.Unlock()
		*s = *wanted.DeepCopy()
	}
	return nil, errors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", errFull))
}

// allocateLocked allocates in memory, under the lock; on an error nothing stays allocated.
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

// revert releases what the transaction has allocated in memory.
func (t *allocationTransaction) revert() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revertLocked()
	t.updateMetrics()
}

// finish completes the transaction after the write; see begin.
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

// releaseAll releases what a deleted Service had.
func (a *Allocator) releaseAll(s *v1.Service) {
	a.releaseUnused(context.Background(), s, &v1.Service{})
}

// releaseUnused releases what s has and remaining has not: first in storage, so that nothing is
// free in memory while it is still stored.
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

// allocatedNodePorts returns the node ports of a Service, with its health check's, each once.
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

// allocationTransaction is the allocations of one write, so that they can be reverted.
type allocationTransaction struct {
	*Allocator
	ips      []string
	ports    []int
	attempts []attempt
	conflict bool // it failed because what was requested, or everything, is allocated
}

// revertLocked is revert with the lock held.
func (t *allocationTransaction) revertLocked() {
	for _, ip := range t.ips {
		t.releaseIP(ip)
	}
	for _, n := range t.ports {
		t.Allocator.ports.release(n)
	}
}

// allocateAll allocates cluster IPs and node ports. The lock is held.
func (t *allocationTransaction) allocateAll(s, old *v1.Service) error {
	if !needsClusterIP(s) {
		return nil
	}
	if err := t.initIPFamilyFields(s, old); err != nil {
		return err
	}
	if !headless(s) {
		if err := t.allocateClusterIPs(s, old); err != nil {
			return err
		}
	}
	if len(s.Spec.ClusterIPs) > 0 {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	return t.allocateNodePorts(s, old)
}

// invalid returns the API error 422 for a Service.
func invalid(s *v1.Service, errs ...*field.Error) error {
	return errors.NewInvalid(schema.GroupKind{Kind: "Service"}, s.Name, errs)
}

// allocateClusterIPs allocates one address per family: the requested one, or any.
func (t *allocationTransaction) allocateClusterIPs(s, old *v1.Service) error {
	var had []string
	if old != nil && needsClusterIP(old) && !headless(old) {
		had = old.Spec.ClusterIPs
	}
	asked := s.Spec.ClusterIPs
	for i, family := range s.Spec.IPFamilies {
		if i < len(asked) {
			ip := asked[i]
			if slices.Contains(had, ip) {
				continue
			}
			p, started := t.poolOf(family, ip), time.Now()
			err := t.allocateIP(p, ip)
			t.recordIP(p.prefix.String(), scopeStatic, started, err)
			if err != nil {
				t.conflict = true
				return invalid(s, field.Invalid(field.NewPath("spec", "clusterIPs"), asked,
					fmt.Sprintf("failed to allocate IP %v: %v", ip, err)))
			}
			t.ips = append(t.ips, ip)
			continue
		}
		started := time.Now()
		ip, cidr, err := t.allocateNextIP(family)
		t.recordIP(cidr, scopeDynamic, started, err)
		if err != nil {
			t.conflict = true
			return errors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
		}
		t.ips = append(t.ips, ip)
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, ip)
	}
	if n := len(s.Spec.IPFamilies); len(s.Spec.ClusterIPs) > n {
		s.Spec.ClusterIPs = s.Spec.ClusterIPs[:n]
	}
	return nil
}

// poolOf returns the range of an address, or the first of the family, which then rejects it.
func (a *Allocator) poolOf(family v1.IPFamily, ip string) *ipPool {
	var first *ipPool
	for _, p := range a.pools {
		if p.family != family {
			continue
		}
		if first == nil {
			first = p
		}
		if addr, err := netip.ParseAddr(ip); err == nil && p.contains(addr) && !p.closed {
			return p
		}
	}
	return first
}

// allocateNextIP allocates a free address of a family, from the configured range while it has one;
// cidr is its range, or with an error the family's first.
func (a *Allocator) allocateNextIP(family v1.IPFamily) (ip, cidr string, err error) {
	for _, p := range a.pools {
		if p.family != family || p.closed {
			continue
		}
		if ip, err := p.allocateNext(); err == nil {
			a.markIP(ip)
			return ip, p.prefix.String(), nil
		}
		if cidr == "" {
			cidr = p.prefix.String()
		}
	}
	return "", cidr, errFull
}
