package whatif

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// OldName is the name of former times of a label that says the same; empty when it had none.
func OldName(label string) string {
	switch label {
	case v1.LabelTopologyZone:
		return v1.LabelFailureDomainBetaZone
	case v1.LabelTopologyRegion:
		return v1.LabelFailureDomainBetaRegion
	case v1.LabelInstanceTypeStable:
		return v1.LabelInstanceType
	case v1.LabelOSStable:
		return "beta.kubernetes.io/os"
	case v1.LabelArchStable:
		return "beta.kubernetes.io/arch"
	}
	return ""
}

// labelForSpread gives the node a topology label it lacks: the value of its old name, else one that other nodes have.
func labelForSpread(st state, r journal.NodeRefusal) []change {
	n := st.world.Node(r.Node)
	if n == nil {
		return nil
	}
	var out []change
	for _, c := range hardSpread(st.pod) {
		if _, ok := n.Node().Labels[c.TopologyKey]; ok {
			continue
		}
		if v, ok := n.Node().Labels[OldName(c.TopologyKey)]; ok {
			out = append(out, labelled(r.Node, map[string]string{c.TopologyKey: v}))
			continue
		}
		values := map[string]bool{}
		for _, other := range st.world.All() {
			if v, ok := other.Node().Labels[c.TopologyKey]; ok {
				values[v] = true
			}
		}
		for i, v := range slices.Sorted(maps.Keys(values)) {
			if i < 3 {
				out = append(out, labelled(r.Node, map[string]string{c.TopologyKey: v}))
			}
		}
	}
	return out
}

func hardSpread(p *v1.Pod) []v1.TopologySpreadConstraint {
	var out []v1.TopologySpreadConstraint
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			out = append(out, c)
		}
	}
	return out
}

func eachSpread(st state, make func(i int, c v1.TopologySpreadConstraint) (change, bool)) []change {
	var out []change
	for i, c := range st.pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		if ch, ok := make(i, c); ok {
			out = append(out, ch)
		}
	}
	return out
}

func widenSpread(st state, _ journal.NodeRefusal) []change {
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		to := c.MaxSkew + 1
		return change{kind: "skew", say: fmt.Sprintf("raise maxSkew of the spread over %s from %d to %d", c.TopologyKey, c.MaxSkew, to), cost: 1.5, pod: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].MaxSkew = to }}, true
	})
}

func honorTaints(st state, _ journal.NodeRefusal) []change {
	honor := v1.NodeInclusionPolicyHonor
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == honor {
			return change{}, false
		}
		return change{kind: "spread", say: fmt.Sprintf("count only domains of %s that the Pod may enter (nodeTaintsPolicy: Honor)", c.TopologyKey), cost: 1.2, pod: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].NodeTaintsPolicy = &honor }}, true
	})
}

func softenSpread(st state, _ journal.NodeRefusal) []change {
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		return change{kind: "rule", say: fmt.Sprintf("make the spread over %s a wish (whenUnsatisfiable: ScheduleAnyway)", c.TopologyKey), cost: 2.5, pod: func(p *v1.Pod) {
			p.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable = v1.ScheduleAnyway
		}}, true
	})
}
