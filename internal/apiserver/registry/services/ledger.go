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

// Ledger keeps an object per cluster address that is held, so that nobody else (another API server, a Gateway) gets it too.
type Ledger interface {
	// Take writes that a Service holds the address. ErrTaken: somebody else does.
	Take(ctx context.Context, address *networkingv1.IPAddress) error
	// Give removes the entry if it is still this Service's.
	Give(ctx context.Context, address *networkingv1.IPAddress) error
}

// ErrTaken says that an address has an entry of somebody else.
var ErrTaken = errors.New("the address has an IPAddress object of somebody else")

// Marks of addresses that the API server hands out, upstream's.
const (
	LabelManagedBy = networkingv1.LabelManagedBy
	LabelFamily    = networkingv1.LabelIPAddressFamily
	Manager        = "ipallocator.k8s.io"
)

// Keep makes the allocator write down what it hands out, and draw on further ranges (of ServiceCIDRs) beside its own. Call it before the first write.
func (a *Allocator) Keep(l Ledger, further func(context.Context) ([]netip.Prefix, error)) {
	a.ledger, a.further = l, further
}

// Entry is the object that says that a Service holds an address.
func Entry(ip, namespace, name string) *networkingv1.IPAddress {
	family := string(v1.IPv4Protocol)
	if addr, err := netip.ParseAddr(ip); err == nil && addr.Is6() {
		family, ip = string(v1.IPv6Protocol), addr.String()
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{LabelFamily: family, LabelManagedBy: Manager}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
	}
}

// grow adds the ranges that are new, with what stored Services hold of them. The caller holds the lock.
func (a *Allocator) grow(ctx context.Context) error {
	if a.further == nil {
		return nil
	}
	all, err := a.further(ctx)
	if err != nil {
		return err
	}
	open := map[netip.Prefix]bool{}
	fresh := false
	for _, c := range all {
		c = c.Masked()
		if open[c] = true; slices.ContainsFunc(a.pools, func(p *pool) bool { return p.prefix == c }) {
			continue
		}
		a.pools, fresh = append(a.pools, newPool(c, a.pick)), true
	}
	for _, p := range a.pools[a.own:] {
		p.closed = !open[p.prefix]
	}
	if fresh {
		a.seeded = false
		return a.seed(ctx)
	}
	return nil
}

// longestGive bounds how long giving back may take; what is not given back is found by the next repair.
const longestGive = 5 * time.Second

// give takes addresses out of the ledger.
func (a *Allocator) give(ctx context.Context, s *v1.Service, ips []string) {
	if a.ledger == nil || len(ips) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestGive)
	defer cancel()
	for _, ip := range ips {
		_ = a.ledger.Give(ctx, Entry(ip, s.Namespace, s.Name)) // the repair removes what stays
	}
}

// write puts addresses and ports into the ledgers. When somebody else holds one, nothing stays written, and lost marks what is held; call it under the lock.
func (t *taking) write(ctx context.Context, s *v1.Service) (lost func(), err error) {
	if t.ledger != nil {
		for i, ip := range t.ips {
			if err := t.ledger.Take(ctx, Entry(ip, s.Namespace, s.Name)); err != nil {
				t.give(ctx, s, t.ips[:i])
				if errors.Is(err, ErrTaken) {
					return func() { t.mark(ip) }, nil
				}
				return nil, fmt.Errorf("failed to allocate a serviceIP: %w", err)
			}
		}
	}
	if t.kept == nil || len(t.ports) == 0 {
		return nil, nil
	}
	if err := t.kept.Take(ctx, t.ports); err != nil {
		t.give(ctx, s, t.ips)
		var held PortTaken
		if errors.As(err, &held) {
			return func() { _ = t.Allocator.ports.take(int(held)) }, nil // taken by now, or not of the range
		}
		return nil, fmt.Errorf("failed to allocate a nodePort: %w", err)
	}
	return nil, nil
}

// relearn forgets what is taken, so that the next write learns it from the stored Services. Writes that are on their way are guarded by the ledgers.
func (a *Allocator) relearn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pools {
		clear(p.taken)
	}
	clear(a.ports.taken)
	a.seeded = false
}

// Forget frees an address whose entry in the ledger was found to belong to nobody.
func (a *Allocator) Forget(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.releaseIP(ip)
}

// takeIP marks an address in every range it lies in, so that ranges may overlap. It fails when the first one refuses it.
func (a *Allocator) takeIP(p *pool, ip string) error {
	if err := p.take(ip); err != nil {
		return err
	}
	a.mark(ip)
	return nil
}

func (a *Allocator) mark(ip string) {
	for _, p := range a.pools {
		_ = p.take(ip) // taken there already, or not its address
	}
}

func (a *Allocator) releaseIP(ip string) {
	for _, p := range a.pools {
		p.release(ip)
	}
}
