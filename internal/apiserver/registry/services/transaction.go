package services

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allocationTransaction is one write's allocations, so that they can be undone.
type allocationTransaction struct {
	*Allocator
	ips      []string
	ports    []int
	attempts []attempt
	conflict bool // it was refused as somebody has what it asked for, or all
	dryRun   bool
	foreign  []int // ports out of range that a dry run took
}

// allocatePort takes the port n. In a dry run a port out of the range is free as well, as
// upstream's operation only asks whether somebody has it: what is wrong with it validation says.
func (t *allocationTransaction) allocatePort(n int) error {
	if t.dryRun && !t.Allocator.ports.contains(n) && !slices.Contains(t.foreign, n) {
		t.foreign = append(t.foreign, n)
		return nil
	}
	if err := t.Allocator.ports.allocate(n); err != nil {
		return err
	}
	t.ports = append(t.ports, n)
	return nil
}

func (t *allocationTransaction) revertLocked() {
	for _, ip := range t.ips {
		t.releaseIP(ip)
	}
	for _, n := range t.ports {
		t.Allocator.ports.release(n)
	}
}

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

func invalid(s *v1.Service, errs ...*field.Error) error {
	return errors.NewInvalid(schema.GroupKind{Kind: "Service"}, s.Name, errs)
}

// allocateClusterIPs takes one address per family: the one asked for, or any.
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
			err := t.takeIP(p, ip)
			t.recordIP(p.prefix.String(), scopeStatic, started, err)
			if err != nil {
				t.conflict = true
				return invalid(s, field.Invalid(field.NewPath("spec", "clusterIPs"), asked,
					fmt.Sprintf("failed to allocate IP %v: %v", ip, err)))
			}
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

// takeIP takes the address ip. A dry run asks only whether the first range of the family has it.
func (t *allocationTransaction) takeIP(p *ipPool, ip string) error {
	if t.dryRun {
		addr, err := netip.ParseAddr(ip)
		for _, first := range t.pools {
			if err == nil && first.family == p.family && first.offset(addr) < 0 {
				return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip,
					first.prefix)
			}
			if first.family == p.family {
				return err
			}
		}
	}
	if err := t.allocateIP(p, ip); err != nil {
		return err
	}
	t.ips = append(t.ips, ip)
	return nil
}

// poolOf is the range of an address, or the first of the family, which then refuses it.
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

// allocateNextIP takes a free address of a family, from the server's own range as long as it has
// one; cidr is the range it is of, or, with an error, the family's first.
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
