package interpodaffinity

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// named is how many Pods an explanation names.
const named = 3

// Explain names the term, the domain and the Pods behind a refusal.
func (pl *Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod, n framework.NodeInfo) place.Why {
	s, err := standingOf(state)
	if err != nil {
		return place.Why{}
	}
	node := n.Node()
	if i := pl.lonely(s, node); i >= 0 {
		return s.whyLonely(i, node)
	}
	if i := s.crowded(node); i >= 0 {
		t := &s.own.GetRequiredAntiAffinityTerms()[i]
		d := domain{t.TopologyKey, node.Labels[t.TopologyKey]}
		who := s.in(state, d, func(other framework.PodInfo) bool { return pl.matches(t, other.GetPod()) })
		return place.Why{Code: reason.PodMinded, Detail: fmt.Sprintf("%s=%s has %s, which the Pod's anti-affinity (%s) keeps away from", d.key, d.value, who, text(t)),
			Fix: fmt.Sprintf("remove %s, or add a node with another value of %s, or make the term preferred", who, d.key)}
	}
	d := s.banned(node)
	if d == (domain{}) {
		return place.Why{}
	}
	who := s.in(state, d, func(other framework.PodInfo) bool {
		for _, t := range other.GetRequiredAntiAffinityTerms() {
			if t.TopologyKey == d.key && pl.matches(&t, p) {
				return true
			}
		}
		return false
	})
	return place.Why{Code: reason.PodUnwelcome, Detail: fmt.Sprintf("%s=%s has %s, whose anti-affinity keeps this Pod out", d.key, d.value, who),
		Fix: fmt.Sprintf("remove %s, or add a node with another value of %s, or change the labels of this Pod", who, d.key)}
}

func (s *standing) whyLonely(i int, node *v1.Node) place.Why {
	t := &s.own.GetRequiredAffinityTerms()[i]
	value, ok := node.Labels[t.TopologyKey]
	if !ok {
		return place.Why{Code: reason.PodWanted, Detail: fmt.Sprintf("no label %s, the topology key of the Pod's affinity (%s)", t.TopologyKey, text(t)),
			Fix: fmt.Sprintf("kubectl label node %s %s=VALUE", node.Name, t.TopologyKey)}
	}
	detail := fmt.Sprintf("no Pod in %s=%s matches the Pod's affinity (%s)", t.TopologyKey, value, text(t))
	if s.wanted.none() {
		return place.Why{Code: reason.PodWanted, Detail: detail + ", nor on any other node", Fix: "start a Pod that matches, or make the term preferred"}
	}
	return place.Why{Code: reason.PodWanted, Detail: detail, Fix: fmt.Sprintf("make room where such Pods are, start one in %s=%s, or make the term preferred", t.TopologyKey, value)}
}

// in names the Pods of a domain that are meant.
func (s *standing) in(state framework.CycleState, d domain, meant func(framework.PodInfo) bool) string {
	world := place.WorldOf(state)
	if world == nil {
		return "a Pod"
	}
	var names []string
	more := 0
	for _, n := range s.of(world, d) {
		for _, other := range n.GetPods() {
			switch {
			case !meant(other):
			case len(names) < named:
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

// of lists the nodes of a domain. All domains of a key are found at once, as many nodes are explained one after the other.
func (s *standing) of(world *snapshot.Snapshot, d domain) []framework.NodeInfo {
	if s.nodes[d.key] == nil {
		byValue := map[string][]framework.NodeInfo{}
		for _, n := range world.All() {
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

func text(t *framework.AffinityTerm) string {
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
