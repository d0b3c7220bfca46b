package services

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// allocateNodePorts allocates the requested node ports and, if the type needs them, free ones for
// the other ports. Ports of one number and different protocols share a node port.
func (t *allocationTransaction) allocateNodePorts(s, old *v1.Service) error {
	var had []int
	if old != nil {
		had = allocatedNodePorts(old)
	}
	isOwnPort := func(n int) bool { return slices.Contains(had, n) || slices.Contains(t.ports, n) }
	path := field.NewPath("spec", "ports")
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if !needsNodePort(s) || p.NodePort == 0 || isOwnPort(int(p.NodePort)) {
			continue
		}
		err := t.allocatePort(int(p.NodePort))
		t.recordPort(scopeStatic, err)
		if err != nil {
			t.conflict = true
			return invalid(s, field.Invalid(path.Index(i).Child("nodePort"), p.NodePort, err.Error()))
		}
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort != 0 || !wantsNodePort(s) {
			continue
		}
		if p.NodePort = siblingNodePort(s.Spec.Ports, p); p.NodePort != 0 {
			continue
		}
		n, err := t.Allocator.ports.allocateNext()
		t.recordPort(scopeDynamic, err)
		if err != nil {
			t.conflict = true
			return errors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
		}
		t.ports, p.NodePort = append(t.ports, n), int32(n)
	}
	return t.allocateHealthCheckNodePort(s, isOwnPort)
}

// siblingNodePort returns the node port of a port with the same number and another protocol; 0 if
// there is none or this protocol has it already.
func siblingNodePort(ports []v1.ServicePort, p *v1.ServicePort) int32 {
	for _, q := range ports {
		if q.Port == p.Port && q.Protocol != p.Protocol && q.NodePort != 0 {
			if !slices.ContainsFunc(ports,
				func(r v1.ServicePort) bool { return r.Protocol == p.Protocol && r.NodePort == q.NodePort }) {
				return q.NodePort
			}
		}
	}
	return 0
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
