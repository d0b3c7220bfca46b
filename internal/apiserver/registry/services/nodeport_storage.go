package services

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// NodePortStorage stores the allocated node ports, for all API servers over one etcd.
type NodePortStorage interface {
	// Allocate marks ports as allocated, all or none. The error is a PortAllocatedError if one
	// of them is allocated already.
	Allocate(ctx context.Context, ports []int) error
	// Release marks ports as free.
	Release(ctx context.Context, ports []int) error
}

// PortAllocatedError is the error for a node port that another server has allocated.
type PortAllocatedError int

func (p PortAllocatedError) Error() string {
	return fmt.Sprintf("node port %d is held by another Service", int(p))
}

// UseNodePortStorage makes the allocator store its node ports. Call it before the first write.
func (a *Allocator) UseNodePortStorage(p NodePortStorage) { a.portStorage = p }

// PortRange returns the node port range as "30000-32767".
func (a *Allocator) PortRange() string { return fmt.Sprintf("%d-%d", a.ports.low, a.ports.high) }

// NewPortMap returns a map of the allocator's range with the node ports of the given Services.
func (a *Allocator) NewPortMap(services []v1.Service) *PortMap {
	m := &PortMap{low: a.ports.low, high: a.ports.high}
	for i := range services {
		for _, n := range allocatedNodePorts(&services[i]) {
			if m.within(n) {
				m.Set(n, true)
			}
		}
	}
	return m
}

// ReadPortMap decodes the stored map; nil if it is of another range.
func (a *Allocator) ReadPortMap(r *v1.RangeAllocation) *PortMap {
	if r.Range != a.PortRange() {
		return nil
	}
	m := &PortMap{low: a.ports.low, high: a.ports.high}
	m.allocated.SetBytes(r.Data)
	return m
}

// PortMap is the set of allocated ports of a range. It is stored like upstream's: a bit per port,
// the first port's the lowest, as a big-endian number.
type PortMap struct {
	low, high int
	allocated big.Int
}

func (m *PortMap) within(n int) bool { return n >= m.low && n <= m.high }

// Has reports whether a port is allocated.
func (m *PortMap) Has(n int) bool { return m.within(n) && m.allocated.Bit(n-m.low) == 1 }

// Set marks a port as allocated or free and reports whether that changed it. Ports outside of the
// range are ignored.
func (m *PortMap) Set(n int, held bool) bool {
	if !m.within(n) || m.Has(n) == held {
		return false
	}
	bit := uint(0)
	if held {
		bit = 1
	}
	m.allocated.SetBit(&m.allocated, n-m.low, bit)
	return true
}

// All returns the allocated ports in order.
func (m *PortMap) All() (out []int) {
	for i := range m.allocated.BitLen() {
		if m.allocated.Bit(i) == 1 {
			out = append(out, m.low+i)
		}
	}
	return out
}

// Stored returns the object to store.
func (m *PortMap) Stored() *v1.RangeAllocation {
	r := &v1.RangeAllocation{Range: fmt.Sprintf("%d-%d", m.low, m.high), Data: m.allocated.Bytes()}
	r.Kind, r.APIVersion = "RangeAllocation", "v1"
	return r
}

// inRange returns those of the ports that are in the node port range.
func (a *Allocator) inRange(ports []int) []int {
	return slices.DeleteFunc(slices.Clone(ports), func(n int) bool { return n < a.ports.low || n > a.ports.high })
}

// releasePorts removes ports from the stored map; what stays is found by the repair.
func (a *Allocator) releasePorts(ctx context.Context, ports []int) {
	if ports = a.inRange(ports); a.portStorage == nil || len(ports) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = a.portStorage.Release(ctx, ports)
}
