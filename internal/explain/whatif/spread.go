package whatif

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// DeprecatedLabel returns the deprecated name of a well-known label; empty if there is none.
func DeprecatedLabel(label string) string {
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

// labelForSpread labels the node with a missing topology key: with the value of its deprecated
// name, else with one of other nodes.
func labelForSpread(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	var out []change
	for _, c := range hardSpread(st.pod) {
		if _, ok := n.Node().Labels[c.TopologyKey]; ok {
			continue
		}
		if v, ok := n.Node().Labels[DeprecatedLabel(c.TopologyKey)]; ok {
			out = append(out, labelNode(r.Node, map[string]string{c.TopologyKey: v}))
			continue
		}
		values := map[string]bool{}
		for _, other := range st.snapshot.All() {
			if v, ok := other.Node().Labels[c.TopologyKey]; ok {
				values[v] = true
			}
		}
		for i, v := range slices.Sorted(maps.Keys(values)) {
			if i < 3 {
				out = append(out, labelNode(r.Node, map[string]string{c.TopologyKey: v}))
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

func eachSpread(st searchState, make func(i int, c v1.TopologySpreadConstraint) (change, bool)) []change {
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

// Domains counts, by domain, the Pods that a topology spread constraint selects. As in the plugin,
// nodes without one of the Pod's topology keys, nodes excluded by its node affinity (unless
// nodeAffinityPolicy is Ignore) and nodes with untolerated taints (with nodeTaintsPolicy Honor) do
// not count.
func Domains(p *v1.Pod, c v1.TopologySpreadConstraint, snap *snapshot.Snapshot) map[string]int {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil
	}
	var same []string // matchLabelKeys that the Pod has: only Pods with equal values count
	for _, k := range c.MatchLabelKeys {
		if _, ok := p.Labels[k]; ok {
			same = append(same, k)
		}
	}
	counts := map[string]int{}
	for _, n := range snap.All() {
		if !countsForSpread(p, c, n.Node()) {
			continue
		}
		d := n.Node().Labels[c.TopologyKey]
		counts[d] += 0
		for _, info := range n.GetPods() {
			other := info.GetPod()
			differs := func(k string) bool { return other.Labels[k] != p.Labels[k] }
			if other.Namespace == p.Namespace && pod.IsActive(other) &&
				selector.Matches(labels.Set(other.Labels)) && !slices.ContainsFunc(same, differs) {
				counts[d]++
			}
		}
	}
	return counts
}

// countsForSpread reports whether a node counts for a topology spread constraint.
func countsForSpread(p *v1.Pod, c v1.TopologySpreadConstraint, n *v1.Node) bool {
	for _, other := range p.Spec.TopologySpreadConstraints {
		if _, ok := n.Labels[other.TopologyKey]; !ok && other.WhenUnsatisfiable == c.WhenUnsatisfiable {
			return false
		}
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !ok {
			return false
		}
	}
	return c.NodeTaintsPolicy == nil || *c.NodeTaintsPolicy != v1.NodeInclusionPolicyHonor ||
		len(untolerated(p, n)) == 0
}

// MinDomainCount returns the count from which skew is measured: the smallest; 0 if there are fewer
// domains than minDomains.
func MinDomainCount(c v1.TopologySpreadConstraint, counts map[string]int) int {
	least := -1
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
	}
	if c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
		least = 0
	}
	return max(least, 0)
}

// widenSpread raises maxSkew to what the Pod would cause on the node.
func widenSpread(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil {
		return nil
	}
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		d, ok := n.Node().Labels[c.TopologyKey]
		if !ok {
			return change{}, false
		}
		counts := Domains(st.pod, c, st.snapshot)
		to := int32(counts[d] - MinDomainCount(c, counts))
		if s, err := metav1.LabelSelectorAsSelector(c.LabelSelector); err == nil &&
			s.Matches(labels.Set(st.pod.Labels)) {
			to++
		}
		if to <= c.MaxSkew {
			return change{}, false
		}
		return change{kind: "skew", description: fmt.Sprintf("raise maxSkew of the spread over %s from %d to %d",
			c.TopologyKey, c.MaxSkew, to), cost: 1.4 + 0.1*float64(to-c.MaxSkew),
			pod: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].MaxSkew = to }}, true
	})
}

// lowerDomains lowers minDomains to the number of domains.
func lowerDomains(st searchState, _ journal.NodeRefusal) []change {
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		have := int32(len(Domains(st.pod, c, st.snapshot)))
		if c.MinDomains == nil || *c.MinDomains <= have || have == 0 {
			return change{}, false
		}
		return change{kind: "domains", description: fmt.Sprintf("lower minDomains of the spread over %s from %d to %d",
			c.TopologyKey, *c.MinDomains, have), cost: 1.3,
			pod: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].MinDomains = &have }}, true
	})
}

func honorTaints(st searchState, _ journal.NodeRefusal) []change {
	honor := v1.NodeInclusionPolicyHonor
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == honor {
			return change{}, false
		}
		return change{kind: "spread",
			description: fmt.Sprintf("count only domains of %s that the Pod may enter (nodeTaintsPolicy: Honor)",
				c.TopologyKey), cost: 1.2,
			pod: func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].NodeTaintsPolicy = &honor }}, true
	})
}

func softenSpread(st searchState, _ journal.NodeRefusal) []change {
	return eachSpread(st, func(i int, c v1.TopologySpreadConstraint) (change, bool) {
		return change{kind: "rule",
			description: fmt.Sprintf("make the spread over %s a wish (whenUnsatisfiable: ScheduleAnyway)",
				c.TopologyKey), cost: 2.5, pod: func(p *v1.Pod) {
				c := &p.Spec.TopologySpreadConstraints[i]
				// minDomains is not allowed with ScheduleAnyway
				c.WhenUnsatisfiable, c.MinDomains = v1.ScheduleAnyway, nil
			}}, true
	})
}
