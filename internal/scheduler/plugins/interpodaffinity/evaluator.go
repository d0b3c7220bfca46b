package interpodaffinity

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// columnEvaluator is the sums as they are, and where the Pod's own terms look.
type columnEvaluator struct {
	evaluator              columns.Evaluator
	affinityTopologies     []*topology // of the Pod's required affinity terms, in their order
	antiAffinityTopologies []*topology // of its anti-affinity terms
	noMatchAnywhere        bool        // nobody is there whom the affinity terms mean, but the Pod itself
	matchesItself          bool        // the affinity terms mean the Pod itself
}

// Evaluator looks every row's domains up by number.
func (s *aggregate) Evaluator() *columns.Evaluator {
	if len(s.affinityTopologies) == 0 {
		for _, t := range s.podInfo.GetRequiredAffinityTerms() {
			s.affinityTopologies = append(s.affinityTopologies, s.topology(t.TopologyKey))
		}
	}
	if len(s.antiAffinityTopologies) == 0 && s.entries[antiAffinityCount] > 0 {
		for _, t := range s.podInfo.GetRequiredAntiAffinityTerms() {
			s.antiAffinityTopologies = append(s.antiAffinityTopologies, s.topology(t.TopologyKey))
		}
	}
	s.noMatchAnywhere = s.matchesItself && s.entries[affinityCount] == 0
	return &s.evaluator
}

// compile prepares the opinion.
func (s *aggregate) compile() {
	s.matchesItself = s.matchesAll(s.podInfo.GetRequiredAffinityTerms(), s.pod)
	s.evaluator = columns.Evaluator{Filter: s.refuse, Score: s.score}
}

func (s *aggregate) refuse(rows []int32, no []*framework.Status) {
	for i, row := range rows {
		switch {
		case no[i] != nil:
		case s.failsAffinity(row):
			no[i] = s.affinityStatus
		case s.failsAntiAffinity(row):
			no[i] = s.antiAffinityStatus
		case s.entries[existingAntiAffinityCount] > 0 && s.failsExistingAntiAffinity(row):
			no[i] = s.existingAntiAffinityStatus
		}
	}
}

func (s *aggregate) score(rows []int32, raw []int64) {
	for _, t := range s.topologies {
		if len(t.counts[scoreCount]) == 0 {
			continue
		}
		for i, row := range rows {
			if n, ok := t.at(scoreCount, row); ok {
				raw[i] += n
			}
		}
	}
}

// failsAffinity tells whether a term is not met; the first of its own group needs the keys alone.
func (s *aggregate) failsAffinity(row int32) bool {
	missing := false
	for _, t := range s.affinityTopologies {
		n, ok := t.at(affinityCount, row)
		if !ok {
			return true
		}
		missing = missing || n <= 0
	}
	return missing && !s.noMatchAnywhere
}

// failsAntiAffinity tells whether Pods are there that the Pod minds.
func (s *aggregate) failsAntiAffinity(row int32) bool {
	for _, t := range s.antiAffinityTopologies {
		if n, ok := t.at(antiAffinityCount, row); ok && n > 0 {
			return true
		}
	}
	return false
}

// failsExistingAntiAffinity tells whether Pods are there that mind the Pod.
func (s *aggregate) failsExistingAntiAffinity(row int32) bool {
	for _, t := range s.topologies {
		if n, ok := t.at(existingAntiAffinityCount, row); ok && n > 0 {
			return true
		}
	}
	return false
}
