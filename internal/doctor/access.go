package doctor

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// AccessGrant is a right on the kubelet API that a broad group of users has.
type AccessGrant struct {
	Binding, Role string   // names of ClusterRoleBinding and ClusterRole
	Subject       string   // user or group
	What          []string // subresources of nodes
}

// wideGroups are broad groups; the groups of a namespace's service accounts are recognized by
// prefix.
var wideGroups = map[string]string{
	"system:anonymous": "everybody, without credentials", "system:unauthenticated": "everybody, without credentials",
	"system:authenticated": "every user and every Pod", "system:serviceaccounts": "every Pod",
}

// ports are the subresources of nodes that the kubelet API authorizes.
// https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/
var ports = []string{"proxy", "pods", "stats", "log", "metrics", "configz", "healthz"}

// Grants returns the rights of broad groups on the kubelet API. The right to nodes/proxy is the
// right to run commands in every container.
func Grants(roles []rbacv1.ClusterRole, bindings []rbacv1.ClusterRoleBinding) []AccessGrant {
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range roles {
		rules[r.Name] = r.Rules
	}
	var out []AccessGrant
	for _, b := range bindings {
		if b.RoleRef.Kind != "ClusterRole" {
			continue
		}
		what := slices.DeleteFunc(slices.Clone(ports), func(sub string) bool {
			return !slices.ContainsFunc(rules[b.RoleRef.Name], func(r rbacv1.PolicyRule) bool { return covers(r, sub) })
		})
		for _, s := range b.Subjects {
			if len(what) > 0 && s.Kind != rbacv1.ServiceAccountKind && isWideGroup(s.Name) != "" {
				out = append(out, AccessGrant{b.Name, b.RoleRef.Name, s.Name, what})
			}
		}
	}
	return out
}

func covers(r rbacv1.PolicyRule, sub string) bool {
	return slices.ContainsFunc(r.APIGroups, func(g string) bool { return g == "" || g == "*" }) && len(r.Verbs) > 0 &&
		slices.ContainsFunc(r.Resources, func(x string) bool { return x == "nodes/"+sub || x == "*" || x == "*/"+sub })
}

func isWideGroup(name string) string {
	if who, ok := wideGroups[name]; ok {
		return who
	}
	if ns, ok := strings.CutPrefix(name, "system:serviceaccounts:"); ok {
		return "every Pod of namespace " + ns
	}
	return ""
}

func access(f Facts) []Finding {
	if f.Grants == nil {
		return nil
	}
	out := []Finding{}
	for _, g := range f.Grants {
		to := "read " + strings.Join(g.What, ", ") + " of every kubelet"
		level := Warning
		if slices.Contains(g.What, "proxy") {
			level, to = Problem, "run commands in every container through nodes/proxy"
		}
		out = append(out, Finding{
			About: "ClusterRoleBinding " + g.Binding, Level: level,
			Text: fmt.Sprintf("%s (%s) may %s, by ClusterRole %s", g.Subject, isWideGroup(g.Subject), to, g.Role),
			Fix: fmt.Sprintf("kubectl delete clusterrolebinding %s, and bind the role to the one account that needs "+
				"it", g.Binding),
		})
	}
	if len(out) == 0 {
		out = append(out, Finding{Text: "no group that everybody is in has rights on nodes"})
	}
	return out
}
