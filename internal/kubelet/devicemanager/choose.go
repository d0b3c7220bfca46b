package devicemanager

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Request is a container's request for devices of one resource, and all that the choice depends on.
type Request struct {
	Pod       types.UID
	Container string
	Resource  string
	Required  int

	Known    bool // a plugin has registered the resource, now or before
	Devices  Resource
	InUse    Set // of the resource, by any container
	Has      Set // what the container has already; nil: nothing was given to it
	Reusable Set // of ended init containers of the Pod
	// the NUMA nodes that the topology manager chose; nil: it does not mind
	Affinity map[int64]bool
	// the plugin is to be asked which devices it prefers
	AsksPreferred bool
	Preferred     Set // the plugin's answer; nil: it was not asked yet
}

// Preference is the question to a plugin which devices it prefers (GetPreferredAllocation).
type Preference struct {
	Available, MustInclude []string
	Size                   int
}

// Choice is the answer to a Request: the ids to allocate, none when there is nothing to do; or the
// question that comes first, whose answer goes into Request.Preferred.
type Choice struct {
	Devices []string
	Ask     *Preference
}

// Choose picks devices. Its errors are upstream's, which users see in the Pod's message.
func Choose(r Request) (Choice, error) {
	needed := r.Required
	if r.Has != nil {
		if needed -= len(r.Has); needed != 0 {
			return Choice{}, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d", r.Pod,
				r.Container, r.Resource, len(r.Has), r.Required)
		}
	}
	healthy := r.Devices.Healthy()
	switch {
	case !r.Known:
		return Choice{}, fmt.Errorf("cannot allocate unregistered device %s", r.Resource)
	case len(healthy) == 0:
		return Choice{}, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", r.Resource)
	case !r.Has.within(healthy):
		return Choice{}, fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy "+
			"devices %s", r.Resource)
	case needed <= 0:
		return Choice{}, nil
	}
	p := picker{taken: Set{}, needed: needed}
	if p.take(r.Reusable) {
		return p.choice(), nil
	}
	available := healthy.Minus(r.InUse, r.Reusable)
	if len(available) < p.needed {
		return Choice{}, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			r.Resource, p.needed, len(available))
	}
	aligned, unaligned, indifferent := r.byAffinity(available)
	// The plugin chooses among aligned devices when these are enough, else among all, after all
	// aligned ones are taken.
	among := aligned
	if p.needed >= len(aligned) {
		if p.take(aligned) {
			return p.choice(), nil
		}
		among = available
	}
	if r.AsksPreferred && r.Preferred == nil {
		return Choice{Ask: &Preference{Available: among.union(p.taken).sorted(), MustInclude: p.taken.sorted(),
			Size: r.Required}}, nil
	}
	if p.take(r.Preferred.intersection(among)) || p.take(aligned) || p.take(unaligned) || p.take(indifferent) {
		return p.choice(), nil
	}
	return Choice{}, fmt.Errorf("unexpectedly allocated less resources than required. Requested: %d, Got: %d",
		r.Required, r.Required-p.needed)
}

// picker takes ids until it has enough.
type picker struct {
	taken  Set
	needed int
}

// take takes from a set in the order of ids; true when nothing more is needed.
func (p *picker) take(from Set) bool {
	for _, id := range from.Minus(p.taken).sorted() {
		if p.needed == 0 {
			return true
		}
		p.taken[id] = true
		p.needed--
	}
	return p.needed == 0
}

func (p *picker) choice() Choice { return Choice{Devices: p.taken.sorted()} }

// intersection is what both have.
func (s Set) intersection(o Set) Set {
	out := Set{}
	for id := range s {
		if o[id] {
			out[id] = true
		}
	}
	return out
}

// byAffinity divides devices into those of the chosen NUMA nodes, those of others, and those that
// belong to none. Without a choice all belong to none. A device of several nodes counts as one of
// the chosen when any of its nodes is.
func (r Request) byAffinity(available Set) (aligned, unaligned, indifferent Set) {
	aligned, unaligned, indifferent = Set{}, Set{}, Set{}
	if r.Affinity == nil || !r.Devices.Aligned() {
		return aligned, unaligned, available
	}
	for id := range available {
		nodes := r.Devices.Devices[id].Nodes
		switch {
		case slices.ContainsFunc(nodes, func(n int64) bool { return r.Affinity[n] }):
			aligned[id] = true
		case len(nodes) > 0:
			unaligned[id] = true
		default:
			indifferent[id] = true
		}
	}
	return aligned, unaligned, indifferent
}

// Nodes are the NUMA nodes of a resource's devices, in order.
func (r Resource) Nodes() []int64 {
	var out []int64
	for _, d := range r.Devices {
		out = append(out, d.Nodes...)
	}
	slices.SortFunc(out, cmp.Compare[int64])
	return slices.Compact(out)
}
