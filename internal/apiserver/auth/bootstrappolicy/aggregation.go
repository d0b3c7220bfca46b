package bootstrappolicy

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gantry-project/gantry/internal/clusterrole"
)

// aggregate fills in the rules of the set's aggregated roles, lowest first, since sums add up.
func (s *Policy) aggregate() error {
	for changed := true; changed; {
		changed = false
		for _, r := range s.ClusterRoles {
			if r.AggregationRule == nil {
				continue
			}
			rules, err := clusterrole.AggregateRules(r, s.ClusterRoles)
			if err != nil {
				return err
			}
			if !equality.Semantic.DeepEqual(rules, r.Rules) {
				r.Rules, changed = rules, true
			}
		}
	}
	return nil
}
