package services

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IPAddressStorage keeps an object per cluster address that is held, so that nobody else (another
// API server, a Gateway) gets it too.
type IPAddressStorage interface {
	// Allocate writes that a Service holds the address. ErrIPAllocated: somebody else does.
	Allocate(ctx context.Context, address *networkingv1.IPAddress) error
	// Release removes the entry if it is still this Service's.
	Release(ctx context.Context, address *networkingv1.IPAddress) error
}

// ErrIPAllocated says that an address has an entry of somebody else.
var ErrIPAllocated = errors.New("the address has an IPAddress object of somebody else")

// Marks of addresses that the API server hands out, upstream's.
const (
	LabelManagedBy = networkingv1.LabelManagedBy
	LabelFamily    = networkingv1.LabelIPAddressFamily
	Manager        = "ipallocator.k8s.io"
)

// UseIPAddressStorage makes the allocator write down what it hands out, and draw on further ranges
// (of ServiceCIDRs) beside its own. Call it before the first write.
func (a *Allocator) UseIPAddressStorage(l IPAddressStorage, further func(context.Context) ([]netip.Prefix, error)) {
	a.ipStorage, a.serviceCIDRs = l, further
}

// NewIPAddress is the object that says that a Service holds an address.
func NewIPAddress(ip, namespace, name string) *networkingv1.IPAddress {
	family := string(v1.IPv4Protocol)
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
		family, ip = string(v1.IPv6Protocol), addr.String()
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{LabelFamily: family,
			LabelManagedBy: Manager}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services",
			Namespace: namespace, Name: name}},
	}
}

// addServiceCIDRs adds the ranges that are new, with what stored Services hold of them. The caller
// holds the lock.
func (a *Allocator) addServiceCIDRs(ctx context.Context) error {
	if a.serviceCIDRs == nil {
		return nil
	}
	all, err := a.serviceCIDRs(ctx)
	if err != nil {
		return err
	}
	open := map[netip.Prefix]bool{}
	fresh := false
	for _, c := range all {
		c = c.Masked()
		if open[c] = true; slices.ContainsFunc(a.pools, func(p *ipPool) bool { return p.prefix == c }) {
			continue
		}
		a.pools, fresh = append(a.pools, newIPPool(c, a.pick)), true
	}
	for _, p := range a.pools[a.ownPools:] {
		p.closed = !open[p.prefix]
	}
	if fresh {
		a.initialized = false
		return a.initialize(ctx)
	}
	return nil
}

// releaseTimeout bounds how long giving back may take; what is not given back is found by the next
// repair.
const releaseTimeout = 5 * time.Second

// releaseStored takes addresses out of the ledger.
func (a *Allocator) releaseStored(ctx context.Context, s *v1.Service, ips []string) {
	if a.ipStorage == nil || len(ips) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	for _, ip := range ips {
		_ = a.ipStorage.Release(ctx, NewIPAddress(ip, s.Namespace, s.Name)) // the repair removes what stays
	}
}

// store puts addresses and ports into the ledgers. When somebody else holds one, nothing stays
// written, and lost marks what is held; call it under the lock.
func (t *allocationTransaction) store(ctx context.Context, s *v1.Service) (leaked func(), err error) {
	if t.ipStorage != nil {
		for i, ip := range t.ips {
			if err := t.ipStorage.Allocate(ctx, NewIPAddress(ip, s.Namespace, s.Name)); err != nil {
				t.releaseStored(ctx, s, t.ips[:i])
				if errors.Is(err, ErrIPAllocated) {
					return func() { t.markIP(ip) }, nil
				}
				return nil, fmt.Errorf("failed to allocate a serviceIP: %w", err)
			}
		}
	}
	if t.portStorage == nil || len(t.ports) == 0 {
		return nil, nil
	}
	if err := t.portStorage.Allocate(ctx, t.ports); err != nil {
		t.releaseStored(ctx, s, t.ips)
		var held PortAllocatedError
		if errors.As(err, &held) {
			return func() { _ = t.Allocator.ports.allocate(int(held)) }, nil // taken by now, or not of the range
		}
		return nil, fmt.Errorf("failed to allocate a nodePort: %w", err)
	}
	return nil, nil
}

// reload forgets what is taken, so that the next write learns it from the stored Services. Writes
// that are on their way are guarded by the ledgers.
func (a *Allocator) reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pools {
		clear(p.allocated)
	}
	clear(a.ports.allocated)
	a.initialized = false
}

// ReleaseOrphaned frees an address whose entry in the ledger was found to belong to nobody.
func (a *Allocator) ReleaseOrphaned(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.releaseIP(ip)
}

// allocateIP marks an address in every range it lies in, so that ranges may overlap. It fails when
// the first one refuses it.
func (a *Allocator) allocateIP(p *ipPool, ip string) error {
	if err := p.allocate(ip); err != nil {
		return err
	}
	a.markIP(ip)
	return nil
}

func (a *Allocator) markIP(ip string) {
	for _, p := range a.pools {
		_ = p.allocate(ip) // taken there already, or not its address
	}
}

func (a *Allocator) releaseIP(ip string) {
	for _, p := range a.pools {
		p.release(ip)
	}
}
