package interpodaffinity

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// preFilterState is how the Pods already there stand to the Pod, by domain.
type preFilterState struct {
	podInfo                    *snapshot.PodInfo
	affinityCounts             topologyCounts // Pods that all of the Pod's required affinity terms mean
	antiAffinityCounts         topologyCounts // Pods that a required anti-affinity term of the Pod means
	existingAntiAffinityCounts topologyCounts // required anti-affinity terms of others that mean the Pod

	nodes map[string]map[string][]framework.NodeInfo // by key and value: those of domains that were explained
}

// Clone copies the counts.
func (s *preFilterState) Clone() framework.StateData {
	return &preFilterState{podInfo: s.podInfo, affinityCounts: s.affinityCounts.clone(),
		antiAffinityCounts:         s.antiAffinityCounts.clone(),
		existingAntiAffinityCounts: s.existingAntiAffinityCounts.clone()}
}

// topologyCounts are counts by domain: its own, or one kind of a tally's, and how they differ from
// these.
type topologyCounts struct {
	domainCounts
	aggregate *aggregate
	kind      countKind
	total     int64 // domains that have a number, with a tally
}

func (n *topologyCounts) of(d domain) int64 {
	if n.aggregate != nil {
		return n.aggregate.countOf(n.kind, d) + n.domainCounts[d]
	}
	return n.domainCounts[d]
}

func (n *topologyCounts) none() bool {
	if n.aggregate != nil {
		return n.total == 0
	}
	return len(n.domainCounts) == 0
}

func (n *topologyCounts) clone() topologyCounts {
	c := *n
	c.domainCounts = maps.Clone(n.domainCounts)
	return c
}

func (n *topologyCounts) add(node *v1.Node, key string, by int64) {
	if n.domainCounts == nil {
		n.domainCounts = domainCounts{}
	}
	if value, ok := node.Labels[key]; ok && n.aggregate != nil {
		switch n.of(domain{key, value}) {
		case 0:
			n.total++
		case -by:
			n.total--
		}
	}
	n.domainCounts.add(node, key, by)
}

// PreFilter counts once for all nodes; a Pod that neither minds others nor is minded by them is not
// judged.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", err))
	}
	s := &preFilterState{podInfo: own}
	for _, n := range nodesWith(state, nodes, framework.NodeInfoLister.HavePodsWithRequiredAntiAffinityList) {
		for _, other := range n.GetPodsWithRequiredAntiAffinity() {
			pl.countAntiAffinity(&s.existingAntiAffinityCounts, other.GetRequiredAntiAffinityTerms(),
				countedPod{p, n.Node(), 1})
		}
	}
	affinity, anti := own.GetRequiredAffinityTerms(), own.GetRequiredAntiAffinityTerms()
	if len(affinity)+len(anti) > 0 {
		for _, n := range nodes {
			for _, other := range n.GetPods() {
				pl.countAffinity(&s.affinityCounts, affinity, countedPod{other.GetPod(), n.Node(), 1})
				pl.countAntiAffinity(&s.antiAffinityCounts, anti, countedPod{other.GetPod(), n.Node(), 1})
			}
		}
	}
	if len(affinity)+len(anti) == 0 && s.existingAntiAffinityCounts.none() {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// countAffinity counts a Pod that all terms mean in the domains of the node.
func (pl *Plugin) countAffinity(c *topologyCounts, terms []framework.AffinityTerm, m countedPod) {
	if !pl.matchesAll(terms, m.pod) {
		return
	}
	for i := range terms {
		c.add(m.node, terms[i].TopologyKey, m.sign)
	}
}

// countAntiAffinity counts each term that means the Pod in its domain of the node.
func (pl *Plugin) countAntiAffinity(c *topologyCounts, terms []framework.AffinityTerm, m countedPod) {
	for i := range terms {
		if pl.matches(&terms[i], m.pod) {
			c.add(m.node, terms[i].TopologyKey, m.sign)
		}
	}
}

// PreFilterExtensions follows Pods that are added or removed in thought.
func (pl *Plugin) PreFilterExtensions() framework.PreFilterExtensions { return pl }

// AddPod counts a Pod in.
func (pl *Plugin) AddPod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo,
	n framework.NodeInfo) *framework.Status {
	return pl.updateCounts(state, other, n.Node(), 1)
}

// RemovePod counts a Pod out.
func (pl *Plugin) RemovePod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo,
	n framework.NodeInfo) *framework.Status {
	return pl.updateCounts(state, other, n.Node(), -1)
}

func (pl *Plugin) updateCounts(state framework.CycleState, other framework.PodInfo, node *v1.Node,
	by int64) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	if node == nil {
		return nil
	}
	pl.countAntiAffinity(&s.existingAntiAffinityCounts, other.GetRequiredAntiAffinityTerms(),
		countedPod{s.podInfo.GetPod(), node, by})
	pl.countAffinity(&s.affinityCounts, s.podInfo.GetRequiredAffinityTerms(), countedPod{other.GetPod(), node, by})
	pl.countAntiAffinity(&s.antiAffinityCounts, s.podInfo.GetRequiredAntiAffinityTerms(),
		countedPod{other.GetPod(), node, by})
	return nil
}

func preFilterStateOf(state framework.CycleState) (*preFilterState, error) {
	v, err := state.Read(filterKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from the cycle state: %w", filterKey, err)
	}
	s, ok := v.(*preFilterState)
	if !ok {
		return nil, fmt.Errorf("%q in the cycle state is a %T", filterKey, v)
	}
	return s, nil
}

// Filter looks the node's domains up. Only missing company is beyond help by preemption: Pods that
// are minded could be removed.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	s, err := preFilterStateOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	switch node := n.Node(); {
	case pl.unmetAffinity(s, node) >= 0:
		return pl.affinityStatus
	case s.unmetAntiAffinity(node) >= 0:
		return pl.antiAffinityStatus
	case s.existingAntiAffinityDomain(node) != domain{}:
		return pl.existingAntiAffinityStatus
	}
	return nil
}

// unmetAffinity is the index of the first affinity term that the node does not meet; -1 when it
// meets all.
func (pl *Plugin) unmetAffinity(s *preFilterState, node *v1.Node) int {
	terms, missing := s.podInfo.GetRequiredAffinityTerms(), -1
	for i := range terms {
		value, ok := node.Labels[terms[i].TopologyKey]
		if !ok {
			return i
		}
		if missing < 0 && s.affinityCounts.of(domain{terms[i].TopologyKey, value}) <= 0 {
			missing = i
		}
	}
	if missing >= 0 && s.affinityCounts.none() && pl.matchesAll(terms, s.podInfo.GetPod()) {
		return -1 // the first of its own group
	}
	return missing
}

// unmetAntiAffinity is the index of the first anti-affinity term that the node breaks; -1 when it
// breaks none.
func (s *preFilterState) unmetAntiAffinity(node *v1.Node) int {
	if s.antiAffinityCounts.none() {
		return -1
	}
	terms := s.podInfo.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if value, ok := node.Labels[terms[i].TopologyKey]; ok &&
			s.antiAffinityCounts.of(domain{terms[i].TopologyKey, value}) > 0 {
			return i
		}
	}
	return -1
}

// existingAntiAffinityDomain is the domain of the node where another Pod's anti-affinity keeps the
// Pod out, of several that of the first key, so that equal rulings name the same; empty when there
// is none.
func (s *preFilterState) existingAntiAffinityDomain(node *v1.Node) domain {
	if s.existingAntiAffinityCounts.none() {
		return domain{}
	}
	var first domain
	for key, value := range node.Labels {
		if d := (domain{key, value}); (first.key == "" || key < first.key) && s.existingAntiAffinityCounts.of(d) > 0 {
			first = d
		}
	}
	return first
}
