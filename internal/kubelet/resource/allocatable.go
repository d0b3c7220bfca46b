package resource

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reserved is what Pods may not have of a node's capacity.
type Reserved struct {
	System   v1.ResourceList // systemReserved
	Kube     v1.ResourceList // kubeReserved
	Eviction v1.ResourceList // hard eviction thresholds of memory and ephemeral-storage, as quantities
}

// Sum is what is kept from Pods of each resource that the node has: system + kube + eviction,
// without those of which nothing is.
func (r Reserved) Sum(capacity v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name := range capacity {
		sum := resource.Quantity{Format: resource.DecimalSI}
		for _, list := range []v1.ResourceList{r.System, r.Kube, r.Eviction} {
			if q, ok := list[name]; ok {
				sum.Add(q)
			}
		}
		if !sum.IsZero() {
			out[name] = sum
		}
	}
	return out
}

// Allocatable is capacity − system − kube − eviction, never below zero; memory is lowered by the
// hugepages set aside from it as well.
func Allocatable(capacity v1.ResourceList, r Reserved) v1.ResourceList {
	out := make(v1.ResourceList, len(capacity))
	for name, q := range capacity {
		remaining := q.DeepCopy()
		for _, take := range []v1.ResourceList{r.System, r.Kube, r.Eviction} {
			if t, ok := take[name]; ok {
				remaining.Sub(t)
			}
		}
		out[name] = atLeastZero(remaining)
	}
	memory, ok := out[v1.ResourceMemory]
	if !ok {
		return out
	}
	for name, q := range capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			memory.Sub(q)
		}
	}
	out[v1.ResourceMemory] = atLeastZero(memory)
	return out
}

func atLeastZero(q resource.Quantity) resource.Quantity {
	if q.Sign() < 0 {
		return *resource.NewQuantity(0, q.Format)
	}
	return q
}

// ParseQuantities reads a reservation of the configuration; what cannot be read was refused when
// the configuration was.
func ParseQuantities(list map[string]string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q, err := resource.ParseQuantity(strings.TrimSpace(list[name])); err == nil {
			out[v1.ResourceName(name)] = q
		}
	}
	return out
}
