package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// countKind is what is counted by domain.
type countKind int

const (
	affinityCount             countKind = iota // Pods that all of the Pod's required affinity terms match
	antiAffinityCount                          // Pods that a required anti-affinity term of the Pod matches
	existingAntiAffinityCount                  // required anti-affinity terms of others that match the Pod
	scoreCount                                 // what preferred terms, and others' required affinity, weigh
	countKinds
)

// eachCount calls do for each count that another Pod adds 1 to in its node's domain of the key.
func (pl *Plugin) eachCount(own *snapshot.PodInfo, other framework.PodInfo, do func(k countKind, key string)) {
	terms := other.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if pl.matches(&terms[i], own.GetPod()) {
			do(existingAntiAffinityCount, terms[i].TopologyKey)
		}
	}
	terms = own.GetRequiredAffinityTerms()
	if pl.matchesAll(terms, other.GetPod()) {
		for i := range terms {
			do(affinityCount, terms[i].TopologyKey)
		}
	}
	terms = own.GetRequiredAntiAffinityTerms()
	for i := range terms {
		if pl.matches(&terms[i], other.GetPod()) {
			do(antiAffinityCount, terms[i].TopologyKey)
		}
	}
}

// eachScore calls do for each term of one of two Pods that matches the other, with what it weighs
// in the other's domain of the key.
func (pl *Plugin) eachScore(own *snapshot.PodInfo, other framework.PodInfo, do func(key string, weight int64)) {
	preferred := func(terms []framework.WeightedAffinityTerm, matched *v1.Pod, sign int64) {
		for i := range terms {
			t := &terms[i]
			if t.Weight != 0 && pl.matches(&t.AffinityTerm, matched) {
				do(t.TopologyKey, sign*int64(t.Weight))
			}
		}
	}
	preferred(own.GetPreferredAffinityTerms(), other.GetPod(), 1)
	preferred(own.GetPreferredAntiAffinityTerms(), other.GetPod(), -1)
	if pl.hardWeight > 0 {
		terms := other.GetRequiredAffinityTerms()
		for i := range terms {
			if pl.matches(&terms[i], own.GetPod()) {
				do(terms[i].TopologyKey, pl.hardWeight)
			}
		}
	}
	preferred(other.GetPreferredAffinityTerms(), own.GetPod(), 1)
	preferred(other.GetPreferredAntiAffinityTerms(), own.GetPod(), -1)
}

// topology is what is counted in the domains of one topology key, by number of the key's value.
type topology struct {
	key    string
	labels *columns.Labels
	counts [countKinds][]int64
}

// ofRow is the count of the row's domain; false when the node has no such label.
func (t *topology) ofRow(k countKind, row int32) (int64, bool) {
	id := t.labels.Numbers[row]
	if int(id) >= len(t.counts[k]) {
		return 0, id != 0
	}
	return t.counts[k][id], id != 0
}

// ofValue is the count of the domain that has the value.
func (t *topology) ofValue(k countKind, value string) int64 {
	if len(t.counts[k]) > 0 {
		if id, known := t.labels.Find(value); known && int(id) < len(t.counts[k]) {
			return t.counts[k][id]
		}
	}
	return 0
}

// countedRow is a node, its row while the columns show it as it is (else -1), and whether a Pod
// comes (1) or goes (-1).
type countedRow struct {
	node *v1.Node
	row  int32
	sign int64
}

// domain is where the count of a node's domain stands; nil when the node has no such label.
func (t *topology) domain(k countKind, at countedRow) *int64 {
	id := int32(0)
	if at.row >= 0 {
		id = t.labels.Numbers[at.row]
	} else if value, has := at.node.Labels[t.key]; has {
		id = t.labels.Number(value)
	}
	if id == 0 {
		return nil
	}
	for int(id) >= len(t.counts[k]) {
		t.counts[k] = append(t.counts[k], 0)
	}
	return &t.counts[k][id]
}

// domain is a set of nodes: those with the value under the key.
type domain struct{ key, value string }
