package clusterrole

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAggregatedRules(t *testing.T) {
	rule := func(verb string) rbacv1.PolicyRule { return rbacv1.PolicyRule{Verbs: []string{verb}} }
	role := func(name, label string, verbs ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"to": label}}}
		for _, v := range verbs {
			r.Rules = append(r.Rules, rule(v))
		}
		return r
	}
	view := role("view", "view")
	view.AggregationRule = &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"to": "view"}}}}
	got, err := AggregateRules(view, []*rbacv1.ClusterRole{role("b", "view", "list", "get"), view,
		role("a", "view", "get"), role("c", "edit", "patch")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{rule("get"), rule("list")}, got); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	view.AggregationRule.ClusterRoleSelectors = append(view.AggregationRule.ClusterRoleSelectors,
		metav1.LabelSelector{MatchLabels: map[string]string{"to": "edit"}})
	all := []*rbacv1.ClusterRole{role("c", "edit", "patch", "get"), view, role("a", "view", "get")}
	if got, err = AggregateRules(view, all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{rule("get"), rule("patch")}, got); diff != "" {
		t.Errorf("two selectors differ (-want +got):\n%s", diff)
	}
	view.AggregationRule.ClusterRoleSelectors[1].MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "to",
		Operator: "Like", Values: []string{"edit"}}}
	if got, err := AggregateRules(view, all); err == nil || got != nil {
		t.Errorf("a selector that cannot be read: got %v, %v, want an error alone", got, err)
	}
}
