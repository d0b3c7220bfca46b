package interpodaffinity

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxPodsNamed is how many Pods an explanation names.
const maxPodsNamed = 3

// Explain names the term, the domain and the Pods behind a refusal.
func (pl *Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	s, err := preFilterStateOf(state)
	if err != nil {
		return schedule.Explanation{}
	}
	node := n.Node()
	near := s.near(node)
	if i := s.unmetAffinity(near); i >= 0 {
		return s.explainAffinity(i, node)
	}
	if i := s.unmetAntiAffinity(near); i >= 0 {
		t := &s.podInfo.GetRequiredAntiAffinityTerms()[i]
		d := domain{t.TopologyKey, node.Labels[t.TopologyKey]}
		who := s.podsInDomain(state, d, func(other framework.PodInfo) bool { return pl.matches(t, other.GetPod()) })
		return schedule.Explanation{Code: reason.AntiAffinity,
			Detail: fmt.Sprintf("%s=%s has %s, which the Pod's anti-affinity (%s) keeps away from", d.key, d.value, who,
				termText(t)),
			Fix: fmt.Sprintf("remove %s, or add a node with another value of %s, or make the term preferred", who,
				d.key)}
	}
	key := s.existingAntiAffinityKey(near)
	if key == "" {
		return schedule.Explanation{}
	}
	d := domain{key, node.Labels[key]}
	var by *framework.AffinityTerm // the first of them
	who := s.podsInDomain(state, d, func(other framework.PodInfo) bool {
		for _, t := range other.GetRequiredAntiAffinityTerms() {
			if t.TopologyKey == d.key && pl.matches(&t, p) {
				by = cmp.Or(by, &t)
				return true
			}
		}
		return false
	})
	return schedule.Explanation{Code: reason.ExistingAntiAffinity,
		Detail: fmt.Sprintf("%s=%s has %s, whose anti-affinity%s keeps this Pod out", d.key, d.value, who,
			selects(by, p)),
		Fix: fmt.Sprintf("remove %s, or add a node with another value of %s, or change the labels of this Pod", who,
			d.key)}
}

// selects says by what a term of another Pod selects this one: the term, and the labels of this Pod
// that it is about where it does not say them.
func selects(t *framework.AffinityTerm, p *v1.Pod) string {
	if t == nil {
		return ""
	}
	text := termText(t)
	requirements, _ := t.Selector.Requirements()
	var own []string
	for _, r := range requirements {
		value, has := p.Labels[r.Key()]
		if label := r.Key() + "=" + value; has && !strings.Contains(text, label) {
			own = append(own, label)
		}
	}
	if len(own) > 0 {
		text += "; this Pod has " + strings.Join(own, ", ")
	}
	return " (" + text + ")"
}

func (s *preFilterState) explainAffinity(i int, node *v1.Node) schedule.Explanation {
	t := &s.podInfo.GetRequiredAffinityTerms()[i]
	value, ok := node.Labels[t.TopologyKey]
	if !ok {
		return schedule.Explanation{Code: reason.Affinity,
			Detail: fmt.Sprintf("no label %s, the topology key of the Pod's affinity (%s)", t.TopologyKey, termText(t)),
			Fix:    fmt.Sprintf("kubectl label node %s %s=VALUE", node.Name, t.TopologyKey)}
	}
	detail := fmt.Sprintf("no Pod in %s=%s matches the Pod's affinity (%s)", t.TopologyKey, value, termText(t))
	if s.entries[affinityCount] == 0 {
		return schedule.Explanation{Code: reason.Affinity, Detail: detail + ", nor on any other node",
			Fix: "start a Pod that matches, or make the term preferred"}
	}
	return schedule.Explanation{Code: reason.Affinity, Detail: detail,
		Fix: fmt.Sprintf("make room where such Pods are, start one in %s=%s, or make the term preferred", t.TopologyKey,
			value)}
}

// podsInDomain names the Pods of a domain that are meant.
func (s *preFilterState) podsInDomain(state framework.CycleState, d domain, meant func(framework.PodInfo) bool) string {
	snap := schedule.SnapshotOf(state)
	if snap == nil {
		return "a Pod"
	}
	var names []string
	more := 0
	for _, n := range s.nodesOfDomain(snap, d) {
		for _, other := range n.GetPods() {
			switch {
			case !meant(other):
			case len(names) < maxPodsNamed:
				names = append(names, pod.Key(other.GetPod()))
			default:
				more++
			}
		}
	}
	switch {
	case len(names) == 0:
		return "a Pod"
	case more > 0:
		return fmt.Sprintf("Pods %s and %d more", strings.Join(names, ", "), more)
	case len(names) == 1:
		return "Pod " + names[0]
	}
	return "Pods " + strings.Join(names, ", ")
}

// nodesOfDomain lists the nodes of a domain. All domains of a key are found at once, as many nodes
// are explained one after the other.
func (s *preFilterState) nodesOfDomain(snap *snapshot.Snapshot, d domain) []framework.NodeInfo {
	if s.nodes[d.key] == nil {
		byValue := map[string][]framework.NodeInfo{}
		for _, n := range snap.All() {
			if value, ok := n.Node().Labels[d.key]; ok {
				byValue[value] = append(byValue[value], n)
			}
		}
		if s.nodes == nil {
			s.nodes = map[string]map[string][]framework.NodeInfo{}
		}
		s.nodes[d.key] = byValue
	}
	return s.nodes[d.key][d.value]
}

func termText(t *framework.AffinityTerm) string {
	where := ""
	if len(t.Namespaces) > 0 {
		where = " in " + strings.Join(sets.List(t.Namespaces), ", ")
	}
	if t.NamespaceSelector != nil {
		if _, selects := t.NamespaceSelector.Requirements(); selects {
			if t.NamespaceSelector.Empty() {
				where = " in every namespace"
			} else {
				where += " in namespaces with " + t.NamespaceSelector.String()
			}
		}
	}
	labels := t.Selector.String()
	if t.Selector.Empty() {
		labels = "any Pod"
	}
	return labels + where
}
