package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// newNode is the name of the simulated new node.
const newNode = "a-new-node"

// addNode simulates an additional empty node with the shape of each node that lacks resources.
func (s *search) addNode(st searchState, refusals []journal.NodeRefusal) {
	tried := map[string]bool{}
	for _, r := range refusals {
		n := st.snapshot.Node(r.Node)
		if n == nil || r.Plugin != "NodeResourcesFit" {
			continue
		}
		shape := shapeOf(n.Node())
		if tried[shape] || len(tried) == 4 {
			continue
		}
		tried[shape] = true
		const name = newNode
		c := change{kind: "add", description: "add a node like " + r.Node + " (" + shape + ")", cost: 4,
			snapshot: func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
				fresh := n.Node().DeepCopy()
				fresh.Name, fresh.UID = name, ""
				fresh.Labels = maps.Clone(fresh.Labels)
				if _, ok := fresh.Labels[v1.LabelHostname]; ok {
					fresh.Labels[v1.LabelHostname] = name
				}
				return w.WithNode(fresh), nil
			}}
		next, err := apply(st, c)
		if err != nil {
			continue
		}
		if result := s.schedule(next); result != nil && result.SuggestedHost == name {
			s.record(next, name)
		}
	}
}

// shapeOf describes a node for somebody who adds one: zone, size, taints.
func shapeOf(n *v1.Node) string {
	var parts []string
	if z := n.Labels[v1.LabelTopologyZone]; z != "" {
		parts = append(parts, "zone "+z)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
		switch {
		case name == v1.ResourceCPU, name == v1.ResourceMemory, strings.Contains(string(name), "/"):
			q := n.Status.Allocatable[name]
			parts = append(parts, fmt.Sprintf("%s %s", q.String(), name))
		}
	}
	for _, t := range n.Spec.Taints {
		parts = append(parts, "taint "+Taint(t))
	}
	return strings.Join(parts, ", ")
}
