package interpodaffinity

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// standing is how the Pods already there stand to the Pod, by domain.
type standing struct {
	own      *snapshot.PodInfo
	wanted   numbers // Pods that all of the Pod's required affinity terms mean
	unwanted numbers // Pods that a required anti-affinity term of the Pod means
	unwilled numbers // required anti-affinity terms of others that mean the Pod

	nodes map[string]map[string][]framework.NodeInfo // by key and value: those of domains that were explained
}

// Clone copies the counts.
func (s *standing) Clone() framework.StateData {
	return &standing{own: s.own, wanted: s.wanted.clone(), unwanted: s.unwanted.clone(), unwilled: s.unwilled.clone()}
}

// numbers are counts by domain: its own, or one kind of a tally's, and how they differ from these.
type numbers struct {
	counts
	kept *tally
	kind kind
	left int64 // domains that have a number, with a tally
}

func (n *numbers) of(d domain) int64 {
	if n.kept != nil {
		return n.kept.of(n.kind, d) + n.counts[d]
	}
	return n.counts[d]
}

func (n *numbers) none() bool {
	if n.kept != nil {
		return n.left == 0
	}
	return len(n.counts) == 0
}

func (n *numbers) clone() numbers {
	c := *n
	c.counts = maps.Clone(n.counts)
	return c
}

func (n *numbers) add(node *v1.Node, key string, by int64) {
	if n.counts == nil {
		n.counts = counts{}
	}
	if value, ok := node.Labels[key]; ok && n.kept != nil {
		switch n.of(domain{key, value}) {
		case 0:
			n.left++
		case -by:
			n.left--
		}
	}
	n.counts.add(node, key, by)
}

// PreFilter counts once for all nodes; a Pod that neither minds others nor is minded by them is not judged.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %v", err))
	}
	s := &standing{own: own}
	for _, n := range nodesWith(state, nodes, framework.NodeInfoLister.HavePodsWithRequiredAntiAffinityList) {
		for _, other := range n.GetPodsWithRequiredAntiAffinity() {
			pl.mind(&s.unwilled, other.GetRequiredAntiAffinityTerms(), meeting{p, n.Node(), 1})
		}
	}
	affinity, anti := own.GetRequiredAffinityTerms(), own.GetRequiredAntiAffinityTerms()
	if len(affinity)+len(anti) > 0 {
		for _, n := range nodes {
			for _, other := range n.GetPods() {
				pl.seek(&s.wanted, affinity, meeting{other.GetPod(), n.Node(), 1})
				pl.mind(&s.unwanted, anti, meeting{other.GetPod(), n.Node(), 1})
			}
		}
	}
	if len(affinity)+len(anti) == 0 && s.unwilled.none() {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(filterKey, s)
	return nil, nil
}

// seek counts a Pod that all terms mean in the domains of the node.
func (pl *Plugin) seek(c *numbers, terms []framework.AffinityTerm, m meeting) {
	if !pl.matchesAll(terms, m.pod) {
		return
	}
	for i := range terms {
		c.add(m.node, terms[i].TopologyKey, m.sign)
	}
}

// mind counts each term that means the Pod in its domain of the node.
func (pl *Plugin) mind(c *numbers, terms []framework.AffinityTerm, m meeting) {
	for i := range terms {
		if pl.matches(&terms[i], m.pod) {
			c.add(m.node, terms[i].TopologyKey, m.sign)
		}
	}
}

// PreFilterExtensions follows Pods that are added or removed in thought.
func (pl *Plugin) PreFilterExtensions() framework.PreFilterExtensions { return pl }

// AddPod counts a Pod in.
func (pl *Plugin) AddPod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	return pl.follow(state, other, n.Node(), 1)
}

// RemovePod counts a Pod out.
func (pl *Plugin) RemovePod(_ context.Context, state framework.CycleState, p *v1.Pod, other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	return pl.follow(state, other, n.Node(), -1)
}

func (pl *Plugin) follow(state framework.CycleState, other framework.PodInfo, node *v1.Node, by int64) *framework.Status {
	s, err := standingOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	if node == nil {
		return nil
	}
	pl.mind(&s.unwilled, other.GetRequiredAntiAffinityTerms(), meeting{s.own.GetPod(), node, by})
	pl.seek(&s.wanted, s.own.GetRequiredAffinityTerms(), meeting{other.GetPod(), node, by})
	pl.mind(&s.unwanted, s.own.GetRequiredAntiAffinityTerms(), meeting{other.GetPod(), node, by})
	return nil
}

func standingOf(state framework.CycleState) (*standing, error) {
	v, err := state.Read(filterKey)
	if err != nil {
		return nil, fmt.Errorf("reading %q from the cycle state: %w", filterKey, err)
	}
	s, ok := v.(*standing)
	if !ok {
		return nil, fmt.Errorf("%q in the cycle state is a %T", filterKey, v)
	}
	return s, nil
}

// Filter looks the node's domains up. Only missing company is beyond help by preemption: Pods that are minded could be removed.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod, n framework.NodeInfo) *framework.Status {
	s, err := standingOf(state)
	if err != nil {
		return framework.AsStatus(err)
	}
	switch node := n.Node(); {
	case pl.lonely(s, node) >= 0:
		return pl.far
	case s.crowded(node) >= 0:
		return pl.near
	case s.banned(node) != domain{}:
		return pl.unwelcome
	}
	return nil
}

// lonely is the index of the first affinity term that the node does not meet; -1 when it meets all.
func (pl *Plugin) lonely(s *standing, node *v1.Node) int {
	terms, missing := s.own.GetRequiredAffinityTerms(), -1
	for i := range terms {
		value, ok := node.Labels[terms[i].TopologyKey]
		if !ok {
			return i
		}
		if missing < 0 && s.wanted.of(domain{terms[i].TopologyKey, value}) <= 0 {
			missing = i
		}
	}
	if missing >= 0 && s.wanted.none() && pl.matchesAll(terms, s.own.GetPod()) {
		return -1 // the first of its own group
	}
	return missing
}

// crowded is the index of the first anti-affinity term that the node breaks; -1 when it breaks none.
func (s *standing) crowded(node *v1.Node) int {
	if s.unwanted.none() {
		return -1
	}
	terms := s.own.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if value, ok := node.Labels[terms[i].TopologyKey]; ok && s.unwanted.of(domain{terms[i].TopologyKey, value}) > 0 {
			return i
		}
	}
	return -1
}

// banned is the domain of the node where another Pod's anti-affinity keeps the Pod out, of several that of the first key, so that equal rulings name the same; empty
// when there is none.
func (s *standing) banned(node *v1.Node) domain {
	if s.unwilled.none() {
		return domain{}
	}
	var first domain
	for key, value := range node.Labels {
		if d := (domain{key, value}); (first.key == "" || key < first.key) && s.unwilled.of(d) > 0 {
			first = d
		}
	}
	return first
}
