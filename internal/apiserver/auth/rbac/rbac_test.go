package rbac

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestRulesMatch(t *testing.T) {
	rule := func(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
	}
	one := func(s string) []string { return []string{s} }
	res := func(verb, group, resource, sub, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: resource, Subresource: sub,
			Name: name, ResourceRequest: true}
	}
	path := func(verb, p string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, Path: p}
	}
	urls := func(u ...string) rbacv1.PolicyRule { return rbacv1.PolicyRule{Verbs: one("get"), NonResourceURLs: u} }
	cases := []struct {
		name string
		rule rbacv1.PolicyRule
		ask  authorizer.AttributesRecord
		want bool
	}{
		{"plain", rule(one("get"), one(""), one("pods")), res("get", "", "pods", "", "x"), true},
		{"verb", rule(one("get"), one(""), one("pods")), res("list", "", "pods", "", ""), false},
		{"group", rule(one("get"), one("apps"), one("pods")), res("get", "", "pods", "", ""), false},
		{"all", rule(one("*"), one("*"), one("*")), res("x", "y", "z", "w", "v"), true},
		{"resource is not its subresource", rule(one("get"), one(""), one("pods")), res("get", "", "pods", "log", ""),
			false},
		{"subresource", rule(one("get"), one(""), one("pods/log")), res("get", "", "pods", "log", ""), true},
		{"subresource of everything", rule(one("get"), one("*"), one("*/scale")),
			res("get", "apps", "deployments", "scale", ""), true},
		{"suffix of a subresource", rule(one("get"), one("*"), one("*/cale")),
			res("get", "apps", "deployments", "scale", ""), false},
		{"name", rule(one("get"), one(""), one("secrets"), "only"), res("get", "", "secrets", "", "only"), true},
		{"other name", rule(one("get"), one(""), one("secrets"), "only"), res("get", "", "secrets", "", "other"),
			false},
		{"name asked for none", rule(one("list"), one(""), one("secrets"), "only"), res("list", "", "secrets", "", ""),
			false},
		{"path", urls("/healthz"), path("get", "/healthz"), true},
		{"path below", urls("/api/*"), path("get", "/api/v1"), true},
		{"path beside", urls("/api/*"), path("get", "/apis"), false},
		{"every path", urls("*"), path("get", "/x"), true},
		{"path by a rule on resources", rule(one("*"), one("*"), one("*")), path("get", "/x"), false},
		{"resource by a rule on paths", urls("*"), res("get", "", "pods", "", ""), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := RuleAllows(&c.rule, c.ask); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// fakePolicy is a policy in memory.
type fakePolicy struct {
	roles        map[string]*rbacv1.Role
	clusterRoles map[string]*rbacv1.ClusterRole
	bindings     []*rbacv1.RoleBinding
	cluster      []*rbacv1.ClusterRoleBinding
}

func (b fakePolicy) Role(ns, name string) (*rbacv1.Role, error) {
	if r, ok := b.roles[ns+"/"+name]; ok {
		return r, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
}

func (b fakePolicy) ClusterRole(name string) (*rbacv1.ClusterRole, error) {
	if r, ok := b.clusterRoles[name]; ok {
		return r, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
}

func (b fakePolicy) RoleBindings(ns string) (out []*rbacv1.RoleBinding, _ error) {
	for _, x := range b.bindings {
		if x.Namespace == ns {
			out = append(out, x)
		}
	}
	return out, nil
}

func (b fakePolicy) ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error) {
	return b.cluster, nil
}

func written() fakePolicy {
	rules := func(verb, resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{resource}}}
	}
	meta := func(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	return fakePolicy{
		roles: map[string]*rbacv1.Role{"ns/reader": {ObjectMeta: meta("ns", "reader"),
			Rules: rules("get", "pods")}},
		clusterRoles: map[string]*rbacv1.ClusterRole{"nodes": {Rules: rules("get", "nodes")},
			"maps": {Rules: rules("get", "configmaps")}},
		bindings: []*rbacv1.RoleBinding{
			{ObjectMeta: meta("ns", "b"), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "reader"},
				Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}, {Kind: "ServiceAccount", Name: "sa"}}},
			{ObjectMeta: meta("ns", "maps"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "maps"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "other", Name: "sa"}}},
			{ObjectMeta: meta("ns", "dangling"), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "gone"},
				Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}}},
		},
		cluster: []*rbacv1.ClusterRoleBinding{
			{ObjectMeta: meta("", "c"), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "nodes"},
				Subjects: []rbacv1.Subject{{Kind: "Group", Name: "dev"}}},
		},
	}
}

func TestAuthorizeNamesTheBinding(t *testing.T) {
	a := Authorizer{Rules: written()}
	cases := []struct{ user, group, verb, resource, ns, want string }{
		{"alice", "", "get", "pods", "ns", `RBAC: allowed by RoleBinding "b/ns" of Role "reader" to User "alice"`},
		{"alice", "", "get", "pods", "other", ""},
		{"alice", "", "get", "pods", "", ""},
		{"alice", "", "delete", "pods", "ns", `RBAC: roles.rbac.authorization.k8s.io "gone" not found`},
		{"system:serviceaccount:ns:sa", "", "get", "pods", "ns",
			`RBAC: allowed by RoleBinding "b/ns" of Role "reader" to ServiceAccount "sa"`},
		{"system:serviceaccount:other:sa", "", "get", "configmaps", "ns",
			`RBAC: allowed by RoleBinding "maps/ns" of ClusterRole "maps" to ServiceAccount "sa/other"`},
		{"system:serviceaccount:other:sa", "", "get", "pods", "ns", ""},
		{"bob", "dev", "get", "nodes", "",
			`RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "nodes" to Group "dev"`},
		{"bob", "dev", "get", "nodes", "ns",
			`RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "nodes" to Group "dev"`},
		{"dev", "", "get", "nodes", "", ""},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			_, reason, err := a.Authorize(t.Context(), authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: c.user, Groups: []string{c.group}}, Verb: c.verb, Resource: c.resource,
				Namespace: c.ns, ResourceRequest: true,
			})
			if err != nil || reason != c.want {
				t.Errorf("reason %q, error %v, want no error, %v", reason, err, c.want)
			}
		})
	}
}

func TestRulesForListsEverythingOneMayDo(t *testing.T) {
	res, paths, incomplete, err := Authorizer{Rules: written()}.RulesFor(t.Context(),
		&user.DefaultInfo{Name: "alice", Groups: []string{"dev"}}, "ns")
	if len(res) != 2 || len(paths) != 0 || incomplete || err == nil { // the dangling binding is an error
		t.Errorf("got %d %d %v %v, want 2 in res, no paths, incomplete false and an error", len(res), len(paths),
			incomplete, err)
	}
}

func TestEscalationIsRefused(t *testing.T) {
	rule := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""},
		Resources: []string{"pods", "nodes"}}
	for name, c := range map[string]struct {
		who  *user.DefaultInfo
		want string
	}{
		"part": {&user.DefaultInfo{Name: "alice", Groups: []string{"dev"}},
			`user "alice" (groups=["dev"]) is attempting to grant RBAC permissions not currently held:` +
				"\n" + `{APIGroups:[""], Resources:["nodes"], Verbs:["list"]}` + "\n" +
				`{APIGroups:[""], Resources:["pods"], Verbs:["list"]}` +
				`; resolution errors: [roles.rbac.authorization.k8s.io "gone" not found]`},
		"none": {&user.DefaultInfo{Name: "eve"},
			"user \"eve\" (groups=[]) is attempting to grant RBAC permissions not currently " +
				"held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}\n{APIGroups:[\"\"], " +
				"Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}"},
		"master": {&user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := ConfirmNoEscalation(request.WithUser(t.Context(), c.who), written(), "ns", []rbacv1.PolicyRule{rule})
			if got := fmt.Sprint(err); got != c.want && !(err == nil && c.want == "") {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func BenchmarkAuthorize(b *testing.B) {
	w := written()
	for i := range 80 {
		w.cluster = append(w.cluster, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("x", i)}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole",
				Name: "nodes"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system",
				Name: fmt.Sprint("controller-", i)}},
		})
	}
	a := Authorizer{Rules: w}
	r := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice", Groups: []string{"a", "b"}}, Verb: "get",
		Resource: "pods", Namespace: "ns", ResourceRequest: true}
	for b.Loop() {
		if d, _, _ := a.Authorize(b.Context(), r); d != authorizer.DecisionAllow {
			b.Fatalf("refused: got %v, want %v", d, authorizer.DecisionAllow)
		}
	}
}
