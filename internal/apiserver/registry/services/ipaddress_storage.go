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

// IPAddressStorage stores an IPAddress object per allocated cluster IP, so that no other API server
// or Gateway allocates it too.
type IPAddressStorage interface {
	// Allocate creates the object; ErrIPAllocated if that of another owner exists.
	Allocate(ctx context.Context, address *networkingv1.IPAddress) error
	// Release deletes the object if it is still this Service's.
	Release(ctx context.Context, address *networkingv1.IPAddress) error
}

// ErrIPAllocated is Allocate's error when the IPAddress object of another owner exists.
var ErrIPAllocated = errors.New("the address has an IPAddress object of somebody else")

// Labels of IPAddress objects that the API server manages, upstream's.
const (
	LabelManagedBy = networkingv1.LabelManagedBy
	LabelFamily    = networkingv1.LabelIPAddressFamily
	Manager        = "ipallocator.k8s.io"
)

// UseIPAddressStorage makes the allocator store its addresses, and allocate from further ranges (of
// ServiceCIDRs) too. Call it before the first write.
func (a *Allocator) UseIPAddressStorage(l IPAddressStorage, further func(context.Context) ([]netip.Prefix, error)) {
	a.ipStorage, a.serviceCIDRs = l, further
}

// NewIPAddress returns the IPAddress object of a Service's cluster IP.
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

// addServiceCIDRs adds the ranges of new ServiceCIDRs, with what stored Services have of them. a.mu
// is held.
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

// releaseTimeout bounds a release in storage; what stays stored is found by the next
// repair.
const releaseTimeout = 5 * time.Second

// releaseStored deletes the IPAddress objects of addresses.
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

// store stores the transaction's addresses and ports. If one of them belongs to another owner,
// nothing stays stored, and markAllocated, to be called with the lock held, marks it as allocated
// in memory; otherwise it is nil.
func (t *allocationTransaction) store(ctx context.Context, s *v1.Service) (markAllocated func(), err error) {
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
			return func() { _ = t.Allocator.ports.allocate(int(held)) }, nil // may be allocated by now, or out of range
		}
		return nil, fmt.Errorf("failed to allocate a nodePort: %w", err)
	}
	return nil, nil
}

// reload makes the next write initialize the allocator from the stored Services again. Storage
// protects writes that are in progress.
func (a *Allocator) reload() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pools {
		clear(p.allocated)
	}
	clear(a.ports.allocated)
	a.initialized = false
}

// ReleaseOrphaned frees an address whose IPAddress object the repair has deleted as leaked.
func (a *Allocator) ReleaseOrphaned(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.releaseIP(ip)
}

// allocateIP marks an address in every range that contains it, as ranges may overlap. It fails if p
// rejects it.
func (a *Allocator) allocateIP(p *ipPool, ip string) error {
	if err := p.allocate(ip); err != nil {
		return err
	}
	a.markIP(ip)
	return nil
}

// markIP marks an address as allocated in every range that contains it.
func (a *Allocator) markIP(ip string) {
	for _, p := range a.pools {
		_ = p.allocate(ip) // may be allocated there already, or out of range
	}
}

// releaseIP frees an address in every range that contains it.
func (a *Allocator) releaseIP(ip string) {
	for _, p := range a.pools {
		p.release(ip)
	}
}
