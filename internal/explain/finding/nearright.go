package finding

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is what somebody wants of the API: a verb on a resource of a group. Namespace is empty
// where it is about the whole cluster.
type Request struct{ Verb, Group, Resource, Namespace string }

// NearRight finds what nearly gives a ServiceAccount the right to a request: a binding of a role
// that allows it to another account that was probably not meant, or a rule of a role of this
// account that has another verb, resource or group. ok is false where there is none.
func (c *Cluster) NearRight(account Object, r Request) (f Finding, ok bool) {
	if c == nil {
		return f, false
	}
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
		for _, o := range c.Objects[kind] {
			if kind == "RoleBinding" && o.GetNamespace() != r.Namespace {
				continue
			}
			self := objectOf(kind, o)
			role := c.roleBound(o)
			rules := rulesOf(role.of)
			if c.isBootstrap(self) || role.of == nil {
				continue
			}
			if slices.ContainsFunc(rules, r.allowedBy) {
				f, ok = c.nearSubject(self, account, subjectsOf(o))
			} else if slices.ContainsFunc(subjectsOf(o), account.isSubject) && !c.isBootstrap(role.object) {
				f, ok = c.nearRule(role.object, rules, r)
			}
			if ok {
				f.Related = append(f.Related, account)
				return f, true
			}
		}
	}
	return Finding{}, false
}

// boundRole is the role of a binding, as far as it was read.
type boundRole struct {
	object Object
	of     metav1.Object
}

func (c *Cluster) roleBound(o metav1.Object) boundRole {
	var ref rbacv1.RoleRef
	switch x := o.(type) {
	case *rbacv1.RoleBinding:
		ref = x.RoleRef
	case *rbacv1.ClusterRoleBinding:
		ref = x.RoleRef
	}
	at := Object{Kind: ref.Kind, Name: ref.Name}
	if ref.Kind == "Role" {
		at.Namespace = o.GetNamespace()
	}
	return boundRole{at, c.Get(at)}
}

func rulesOf(o metav1.Object) []rbacv1.PolicyRule {
	switch x := o.(type) {
	case *rbacv1.Role:
		return x.Rules
	case *rbacv1.ClusterRole:
		return x.Rules
	}
	return nil
}

// allowedBy reports whether a rule allows the request for objects of any name.
func (r Request) allowedBy(rule rbacv1.PolicyRule) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, word) || slices.Contains(list, "*")
	}
	return len(rule.ResourceNames) == 0 && has(rule.Verbs, r.Verb) && has(rule.APIGroups, r.Group) &&
		has(rule.Resources, r.Resource)
}

// isSubject reports whether a subject is the account.
func (o Object) isSubject(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.ServiceAccountKind && s.Name == o.Name && s.Namespace == o.Namespace
}

// nearSubject is the subject of a binding that was probably to be the account.
func (c *Cluster) nearSubject(self, account Object, all []rbacv1.Subject) (Finding, bool) {
	for i, s := range all {
		f := Finding{Code: "Restricted", Stage: StageRun, Object: self}
		near, how := Near(s.Name, []string{account.Name})
		switch {
		case s.Kind != rbacv1.ServiceAccountKind && s.Kind != rbacv1.UserKind:
			continue
		case s.Kind == rbacv1.UserKind && s.Name == account.Name:
			f.Field, f.Value, f.Want = fmt.Sprintf("subjects[%d].kind", i), s.Kind, rbacv1.ServiceAccountKind
		case s.Kind == rbacv1.ServiceAccountKind && s.Name == account.Name && s.Namespace != account.Namespace:
			f.Field, f.Value, f.Want = fmt.Sprintf("subjects[%d].namespace", i), s.Namespace, account.Namespace
		case s.Kind == rbacv1.ServiceAccountKind && near != "" && s.Namespace == account.Namespace:
			f.Field, f.Value, f.Want = fmt.Sprintf("subjects[%d].name", i), s.Name, account.Name
		default:
			continue
		}
		f.Message = fmt.Sprintf("%s %s gives that to %s %s of namespace %s (%s), not to ServiceAccount %s of "+
			"namespace %s.", self.Kind, self.Name, s.Kind, s.Name, cmp.Or(s.Namespace, "none"), f.Field, account.Name,
			account.Namespace)
		if f.Field == fmt.Sprintf("subjects[%d].name", i) {
			f.Message += " Perhaps this one was meant; " + how + "."
		}
		f.Remedies = []Remedy{{Say: fmt.Sprintf("let %s %s name ServiceAccount %s of namespace %s", self.Kind,
			self.Name,
			account.Name, account.Namespace), Run: c.patchCommand(self, fmt.Sprintf(
			`[{"op":"replace","path":"/subjects/%d","value":{"kind":"ServiceAccount","name":%s,"namespace":%s}}]`, i,
			jsonText(account.Name), jsonText(account.Namespace)))}}
		return f, true
	}
	return Finding{}, false
}

// nearRule is the rule of an account's role that allows all of a request but one part.
func (c *Cluster) nearRule(role Object, rules []rbacv1.PolicyRule, r Request) (Finding, bool) {
	for i, rule := range rules {
		for _, x := range []struct {
			field, value, want string
			have               []string
			near               Request
		}{
			{"verbs", joined(rule.Verbs), r.Verb, rule.Verbs, Request{firstOf(rule.Verbs), r.Group, r.Resource, ""}},
			{"resources", joined(rule.Resources), r.Resource, rule.Resources,
				Request{r.Verb, r.Group, firstOf(rule.Resources), ""}},
			{"apiGroups", joined(rule.APIGroups), r.Group, rule.APIGroups,
				Request{r.Verb, firstOf(rule.APIGroups), r.Resource, ""}},
		} {
			if near, _ := Near(x.want, x.have); x.field == "resources" && near == "" || !x.near.allowedBy(rule) {
				continue
			}
			f := Finding{Code: "Restricted", Stage: StageRun, Object: role, Field: fmt.Sprintf("rules[%d].%s", i,
				x.field),
				Value: x.value, Want: x.want, Message: fmt.Sprintf("Its %s %s allows %s on %s of API group %q "+
					"(rules[%d]), and %s lacks %q.", role.Kind, role.Name, joined(rule.Verbs), joined(rule.Resources),
					joined(rule.APIGroups), i, x.field, x.want)}
			f.Remedies = []Remedy{{Say: fmt.Sprintf("let rules[%d] of %s %s have it: all that are bound to the "+
				"role may do that then", i, role.Kind, role.Name), Run: c.patchCommand(role, fmt.Sprintf(
				`[{"op":"add","path":"/rules/%d/%s/-","value":%s}]`, i, x.field, jsonText(x.want)))}}
			return f, true
		}
	}
	return Finding{}, false
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
