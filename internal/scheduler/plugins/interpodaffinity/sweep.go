package interpodaffinity

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// opinion is the sums as they are, and where the Pod's own terms look.
type opinion struct {
	said     columns.Opinion
	company  []*topology // of the Pod's required affinity terms, in their order
	distance []*topology // of its anti-affinity terms
	first    bool        // nobody is there whom the affinity terms mean, but the Pod itself
	itself   bool        // the affinity terms mean the Pod itself
}

// Opinion looks every row's domains up by number.
func (s *tally) Opinion() *columns.Opinion {
	if len(s.company) == 0 {
		for _, t := range s.own.GetRequiredAffinityTerms() {
			s.company = append(s.company, s.topology(t.TopologyKey))
		}
	}
	if len(s.distance) == 0 && s.entries[unwanted] > 0 {
		for _, t := range s.own.GetRequiredAntiAffinityTerms() {
			s.distance = append(s.distance, s.topology(t.TopologyKey))
		}
	}
	s.first = s.itself && s.entries[wanted] == 0
	return &s.said
}

// compile prepares the opinion.
func (s *tally) compile() {
	s.itself = s.matchesAll(s.own.GetRequiredAffinityTerms(), s.pod)
	s.said = columns.Opinion{Refuse: s.refuse, Score: s.score}
}

func (s *tally) refuse(rows []int32, no []*framework.Status) {
	for i, row := range rows {
		switch {
		case no[i] != nil:
		case s.alone(row):
			no[i] = s.far
		case s.among(row):
			no[i] = s.near
		case s.entries[unwilled] > 0 && s.resented(row):
			no[i] = s.unwelcome
		}
	}
}

func (s *tally) score(rows []int32, raw []int64) {
	for _, t := range s.over {
		if len(t.n[weights]) == 0 {
			continue
		}
		for i, row := range rows {
			if n, ok := t.at(weights, row); ok {
				raw[i] += n
			}
		}
	}
}

// alone tells whether a term is not met; the first of its own group needs the keys alone.
func (s *tally) alone(row int32) bool {
	missing := false
	for _, t := range s.company {
		n, ok := t.at(wanted, row)
		if !ok {
			return true
		}
		missing = missing || n <= 0
	}
	return missing && !s.first
}

// among tells whether Pods are there that the Pod minds.
func (s *tally) among(row int32) bool {
	for _, t := range s.distance {
		if n, ok := t.at(unwanted, row); ok && n > 0 {
			return true
		}
	}
	return false
}

// resented tells whether Pods are there that mind the Pod.
func (s *tally) resented(row int32) bool {
	for _, t := range s.over {
		if n, ok := t.at(unwilled, row); ok && n > 0 {
			return true
		}
	}
	return false
}
