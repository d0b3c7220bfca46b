package topologymanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// Names of options.
const (
	PreferClosestNUMANodes = "prefer-closest-numa-nodes"
	MaxAllowableNUMANodes  = "max-allowable-numa-nodes"
)

// defaultMaxNodes is how many NUMA nodes a machine may have unless max-allowable-numa-nodes says
// more: the sets of nodes grow as powers of two.
const defaultMaxNodes = 8

// Options are topologyManagerPolicyOptions, read.
type Options struct {
	PreferClosestNUMA     bool
	MaxAllowableNUMANodes int
}

// ParseOptions reads topologyManagerPolicyOptions. Both options are stable and need no gate.
func ParseOptions(set map[string]string) (Options, error) {
	o := Options{MaxAllowableNUMANodes: defaultMaxNodes}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		switch name {
		case PreferClosestNUMANodes:
			on, err := strconv.ParseBool(set[name])
			if err != nil {
				return o, fmt.Errorf("bad value for option %q: %w", name, err)
			}
			o.PreferClosestNUMA = on
		case MaxAllowableNUMANodes:
			n, err := strconv.Atoi(set[name])
			if err != nil {
				return o, fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
			}
			if n < defaultMaxNodes {
				return o, fmt.Errorf("the minimum value of %q should not be less than %v", name, defaultMaxNodes)
			}
			o.MaxAllowableNUMANodes = n
		default:
			return o, fmt.Errorf("unknown Topology Manager Policy option: %q", name)
		}
	}
	return o, nil
}

// Policy is topologyManagerPolicy with its options.
type Policy struct {
	Name    string
	Options Options
}

// Decide merges what the providers say for one container or Pod. False: the Pod is refused.
func (p Policy) Decide(providers []map[string][]Hint, numa NUMAInfo) (Hint, bool) {
	switch hints := perResource(providers); p.Name {
	case kubelet.BestEffortTopologyManagerPolicy:
		return Merge(hints, numa, p.Options.PreferClosestNUMA), true
	case kubelet.RestrictedTopologyManagerPolicy:
		best := Merge(hints, numa, p.Options.PreferClosestNUMA)
		return best, best.Preferred
	case kubelet.SingleNumaNodeTopologyManagerPolicy:
		best := Merge(singleNodes(hints), numa, false)
		if best.NUMANodeAffinity == numa.Mask() {
			best.NUMANodeAffinity = 0
		}
		return best, best.Preferred
	}
	return Hint{}, true
}

// perResource is the hints of each resource of all providers, in a fixed order. A provider or a
// resource without hints has one preferred hint of any nodes, a resource that cannot be had one
// that is not preferred.
func perResource(providers []map[string][]Hint) [][]Hint {
	var out [][]Hint
	for _, p := range providers {
		if len(p) == 0 {
			out = append(out, []Hint{{Preferred: true}})
		}
		for _, name := range slices.Sorted(maps.Keys(p)) {
			switch list := p[name]; {
			case list == nil:
				out = append(out, []Hint{{Preferred: true}})
			case len(list) == 0:
				out = append(out, []Hint{{}})
			default:
				out = append(out, list)
			}
		}
	}
	return out
}

// singleNodes keeps preferred hints of one node or of any.
func singleNodes(hints [][]Hint) [][]Hint {
	out := make([][]Hint, len(hints))
	for i, list := range hints {
		for _, h := range list {
			if h.Preferred && h.NUMANodeAffinity.Count() <= 1 {
				out[i] = append(out[i], h)
			}
		}
	}
	return out
}
