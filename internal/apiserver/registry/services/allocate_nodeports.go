package services

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allocateNodePorts allocates the requested node ports and, if the type needs them, free ones for
// the other ports. In a new Service ports of one number share a node port.
func (t *allocationTransaction) allocateNodePorts(s, old *v1.Service) error {
	var had []int
	if old != nil {
		had = allocatedNodePorts(old)
	}
	isOwnPort := func(n int) bool { return slices.Contains(had, n) || slices.Contains(t.ports, n) }
	var err error
	switch {
	case !needsNodePort(s):
	case old == nil:
		err = t.createNodePorts(s)
	default:
		err = t.updateNodePorts(s, isOwnPort)
	}
	if err != nil {
		return err
	}
	return t.allocateHealthCheckNodePort(s, isOwnPort)
}

// createNodePorts allocates the node ports of a new Service: the first port of a number takes what
// any port of that number asks for, and those of that number that ask for nothing share it.
func (t *allocationTransaction) createNodePorts(s *v1.Service) error {
	ofNumber := map[int32]int32{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort == 0 && !wantsNodePort(s) {
			continue
		}
		shared, known := ofNumber[p.Port]
		switch {
		case known && (p.NodePort == 0 || p.NodePort == shared):
			p.NodePort = shared
			continue
		case known:
			if err := t.takeNodePort(s, i, p.NodePort); err != nil {
				return err
			}
			continue
		}
		if asked := requestedNodePort(s.Spec.Ports, p.Port); asked != 0 {
			if err := t.takeNodePort(s, i, asked); err != nil {
				return err
			}
			p.NodePort = asked
		} else if err := t.takeNextNodePort(p); err != nil {
			return err
		}
		ofNumber[p.Port] = p.NodePort
	}
	return nil
}

// requestedNodePort is the first node port that a port of this number asks for, or 0.
func requestedNodePort(ports []v1.ServicePort, number int32) int32 {
	for _, p := range ports {
		if p.Port == number && p.NodePort != 0 {
			return p.NodePort
		}
	}
	return 0
}

// updateNodePorts allocates the node ports that an update asks for beside those it has, and one for
// each port without.
func (t *allocationTransaction) updateNodePorts(s *v1.Service, isOwnPort func(int) bool) error {
	type nodePort struct {
		protocol v1.Protocol
		number   int32
	}
	seen := map[nodePort]bool{}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		switch {
		case p.NodePort == 0 && !wantsNodePort(s):
			continue
		case p.NodePort == 0:
			if err := t.takeNextNodePort(p); err != nil {
				return err
			}
		case !isOwnPort(int(p.NodePort)):
			if err := t.takeNodePort(s, i, p.NodePort); err != nil {
				return err
			}
		}
		key := nodePort{p.Protocol, p.NodePort}
		if seen[key] {
			return fmt.Errorf("duplicate nodePort: %v", key)
		}
		seen[key] = true
	}
	return nil
}

// takeNodePort takes node port n for the port at index i.
func (t *allocationTransaction) takeNodePort(s *v1.Service, i int, n int32) error {
	err := t.allocatePort(int(n))
	t.recordPort(scopeStatic, err)
	if err != nil {
		t.conflict = true
		return invalid(s, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), n, err.Error()))
	}
	return nil
}

// takeNextNodePort gives p a free node port.
func (t *allocationTransaction) takeNextNodePort(p *v1.ServicePort) error {
	n, err := t.Allocator.ports.allocateNext()
	t.recordPort(scopeDynamic, err)
	if err != nil {
		t.conflict = true
		return errors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	t.ports, p.NodePort = append(t.ports, n), int32(n)
	return nil
}

// allocateHealthCheckNodePort allocates healthCheckNodePort if the Service needs it: the requested
// one, or any. isOwnPort reports whether the Service or this transaction has a port already.
func (t *allocationTransaction) allocateHealthCheckNodePort(s *v1.Service, isOwnPort func(int) bool) error {
	if !needsHealthPort(s) {
		return nil
	}
	n := int(s.Spec.HealthCheckNodePort)
	switch {
	case n != 0 && isOwnPort(n):
		return nil
	case n != 0:
		err := t.allocatePort(n)
		t.recordPort(scopeStatic, err)
		if err != nil {
			t.conflict = true
			return errors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", n,
				err))
		}
		return nil
	default:
		var err error
		n, err = t.Allocator.ports.allocateNext()
		t.recordPort(scopeDynamic, err)
		if err != nil {
			t.conflict = true
			return errors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort: %w", err))
		}
	}
	t.ports, s.Spec.HealthCheckNodePort = append(t.ports, n), int32(n)
	return nil
}
