package interpodaffinity

import (
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// Opinion looks every row's domains up by number.
func (s *tally) Opinion() *columns.Opinion {
	var company, distance []*column // of the Pod's own terms, in their order
	for _, t := range s.own.GetRequiredAffinityTerms() {
		company = append(company, s.column(s.wanted, t.TopologyKey))
	}
	if len(s.standing.unwanted) > 0 {
		for _, t := range s.own.GetRequiredAntiAffinityTerms() {
			distance = append(distance, s.column(s.unwanted, t.TopologyKey))
		}
	}
	first := len(s.standing.wanted) == 0 && s.matchesAll(s.own.GetRequiredAffinityTerms(), s.pod)
	return &columns.Opinion{
		Refuse: func(rows []int32, no []*framework.Status) {
			for i, row := range rows {
				switch {
				case no[i] != nil:
				case far(company, row, first):
					no[i] = s.far
				case among(distance, row):
					no[i] = s.near
				case len(s.standing.unwilled) > 0 && s.unwilled.anywhere(row):
					no[i] = s.unwelcome
				}
			}
		},
		Score: func(rows []int32, raw []int64) {
			for _, c := range s.weights {
				for i, row := range rows {
					if n, ok := c.at(row); ok {
						raw[i] += n
					}
				}
			}
		},
	}
}

// far tells whether a term is not met; the first of its own group needs the keys alone.
func far(company []*column, row int32, first bool) bool {
	missing := false
	for _, c := range company {
		n, ok := c.at(row)
		if !ok {
			return true
		}
		missing = missing || n <= 0
	}
	return missing && !first
}

func among(distance []*column, row int32) bool {
	for _, c := range distance {
		if n, ok := c.at(row); ok && n > 0 {
			return true
		}
	}
	return false
}

func (b byKey) anywhere(row int32) bool {
	for _, c := range b {
		if n, ok := c.at(row); ok && n > 0 {
			return true
		}
	}
	return false
}
