package finding

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isClusterScoped reports whether a resource, or the one that its subresource is of, is served by
// the groups and is in no namespace. Of namespaces a Role may allow its own.
func (c *Cluster) isClusterScoped(resource string, groups []string) bool {
	plural, _, _ := strings.Cut(resource, "/")
	return len(groups) > 0 && plural != "namespaces" && !slices.ContainsFunc(groups, func(g string) bool {
		return !slices.Contains(c.Unscoped[g], plural)
	})
}

// unscoped finds what a Role, or a ClusterRole that a RoleBinding gives in one namespace, allows of
// resources that are in no namespace: nothing.
func unscoped(c *Cluster, o metav1.Object, self Object) []Finding {
	switch x := o.(type) {
	case *rbacv1.Role:
		return c.unscopedRules(x.Rules, self)
	case *rbacv1.RoleBinding:
		role, ok := get[*rbacv1.ClusterRole](c, "ClusterRole", "", x.RoleRef.Name)
		if !ok || x.RoleRef.Kind != "ClusterRole" {
			return nil
		}
		return c.unscopedBinding(role, x.Subjects, self)
	}
	return nil
}

func (c *Cluster) unscopedRules(rules []rbacv1.PolicyRule, self Object) []Finding {
	var out []Finding
	for i, r := range rules {
		for j, name := range r.Resources {
			if !c.isClusterScoped(name, r.APIGroups) {
				continue
			}
			what := name
			if r.APIGroups[0] != "" {
				what += "." + r.APIGroups[0]
			}
			out = append(out, Finding{Code: "ResourceUnscoped", Severity: Threat, Stage: StageCreation, Object: self,
				Field: fmt.Sprintf("rules[%d].resources[%d]", i, j), Value: name, Want: "ClusterRole",
				Message: fmt.Sprintf("Role %s is about %s, which are in no namespace: a Role gives rights within its "+
					"namespace, so this gives none. A ClusterRole bound by a ClusterRoleBinding "+
					"would.", self.Name, name),
				Remedies: []Remedy{{Say: "allow it by a ClusterRole, and bind that by a ClusterRoleBinding: it then " +
					"holds for the whole cluster", Run: []string{fmt.Sprintf("kubectl create clusterrole %s-%s "+
					"--verb=%s --resource=%s", self.Namespace, self.Name, strings.Join(r.Verbs, ","), what)}}}})
		}
	}
	return out
}

// unscopedBinding finds a RoleBinding to a ClusterRole that is about such resources; where the role
// is about others too, that is only worth a note.
func (c *Cluster) unscopedBinding(role *rbacv1.ClusterRole, subjects []rbacv1.Subject, self Object) []Finding {
	var without, all []string
	for _, r := range role.Rules {
		for _, name := range r.Resources {
			if all = append(all, name); c.isClusterScoped(name, r.APIGroups) {
				without = append(without, name)
			}
		}
		all, without = append(all, r.NonResourceURLs...), append(without, r.NonResourceURLs...)
	}
	if len(without) == 0 || c.isBootstrap(objectOf("ClusterRole", role)) {
		return nil
	}
	f := Finding{Code: "ResourceUnscoped", Severity: Note, Stage: StageCreation, Object: self, Field: "roleRef",
		Value: role.Name, Want: "ClusterRoleBinding", Related: []Object{objectOf("ClusterRole", role)},
		Message: fmt.Sprintf("ClusterRole %s is about %s, which are in no namespace, and RoleBinding %s gives its "+
			"rights within namespace %s: of these it gives none. A ClusterRoleBinding would.", role.Name,
			joined(without), self.Name, self.Namespace)}
	if len(without) == len(all) {
		f.Severity = Threat
	}
	command := fmt.Sprintf("kubectl create clusterrolebinding %s-%s --clusterrole=%s", self.Namespace, self.Name,
		role.Name)
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			command += fmt.Sprintf(" --serviceaccount=%s:%s", s.Namespace, s.Name)
		case rbacv1.UserKind:
			command += " --user=" + s.Name
		case rbacv1.GroupKind:
			command += " --group=" + s.Name
		}
	}
	f.Remedies = []Remedy{{Say: "bind it for the whole cluster by a ClusterRoleBinding", Run: []string{command}}}
	return []Finding{f}
}
