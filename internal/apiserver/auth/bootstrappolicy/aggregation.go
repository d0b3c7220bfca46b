package bootstrappolicy

import (
	"sort"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// AggregateRules returns the rules of an aggregated ClusterRole: those of the roles its selectors
// choose, selector by selector, by name, each rule once.
func AggregateRules(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	byName := append([]*rbacv1.ClusterRole(nil), all...)
	sort.Slice(byName, func(i, j int) bool { return byName[i].Name < byName[j].Name })
	var out []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		sel, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, r := range byName {
			if r.Name == role.Name || !sel.Matches(labels.Set(r.Labels)) {
				continue
			}
			for _, rule := range r.Rules {
				if !contains(out, rule) {
					out = append(out, rule)
				}
			}
		}
	}
	return out, nil
}

func contains(rules []rbacv1.PolicyRule, rule rbacv1.PolicyRule) bool {
	for i := range rules {
		if equality.Semantic.DeepEqual(rules[i], rule) {
			return true
		}
	}
	return false
}

// aggregate fills in the rules of the set's aggregated roles, lowest first, since sums add up.
func (s *Policy) aggregate() error {
	for changed := true; changed; {
		changed = false
		for _, r := range s.ClusterRoles {
			if r.AggregationRule == nil {
				continue
			}
			rules, err := AggregateRules(r, s.ClusterRoles)
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
