package rbac

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// CompactRules joins rules that name one group and one resource (and the same names) into one rule
// with all their verbs, and sorts the lot as printed.
func CompactRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	at := map[string]int{}
	for _, r := range rules {
		key, ok := isSimpleResourceRule(r)
		if !ok {
			out = append(out, r)
			continue
		}
		i, seen := at[key]
		if !seen {
			at[key] = len(out)
			out = append(out, *r.DeepCopy())
			continue
		}
		for _, v := range r.Verbs {
			if !slices.Contains(out[i].Verbs, v) {
				out[i].Verbs = append(out[i].Verbs, v)
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return CompactString(out[i]) < CompactString(out[j]) })
	return out
}

func isSimpleResourceRule(r rbacv1.PolicyRule) (string, bool) {
	if len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.NonResourceURLs) > 0 || len(r.ResourceNames) > 1 {
		return "", false
	}
	return strings.Join(append([]string{r.APIGroups[0], r.Resources[0]}, r.ResourceNames...), "\x00"), true
}

// CompactString prints a rule as refusals do: {APIGroups:[""], Resources:["pods"], Verbs:["get"]}.
func CompactString(r rbacv1.PolicyRule) string {
	var parts []string
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(f.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", f.name, f.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
