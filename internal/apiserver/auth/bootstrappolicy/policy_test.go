package bootstrappolicy

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/apiserver/auth/rbac"
	"github.com/gantry-project/gantry/internal/clusterrole"
)

func defaults(t *testing.T) *Policy {
	t.Helper()
	s, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fakeRules holds what the recordings' prelude gives her.
type fakeRules struct{ rbac.PolicyReader }

func (fakeRules) ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error) { return nil, nil }
func (fakeRules) RoleBindings(ns string) ([]*rbacv1.RoleBinding, error) {
	return []*rbacv1.RoleBinding{{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "alice"},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "alice"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "alice"}},
	}}, nil
}

func (fakeRules) Role(string, string) (*rbacv1.Role, error) {
	s := &Policy{}
	err := s.parse("alice",
		"role rec alice\n\tallow get,list,watch core pods\n\tallow create,get core configmaps\n\tallow get core "+
			"secrets only\n"+
			"\tallow create,update,patch rbac.authorization.k8s.io roles\n\tallow create rbac.authorization.k8s.io "+
			"rolebindings")
	if err != nil {
		return nil, err
	}
	return s.Roles[0], nil
}

// What upstream v1.36.3 said alice lacked of the ClusterRole admin, word for word: it is the sum of
// what admin, edit and view may do.
func TestAdminIsTheSumUpstreamHas(t *testing.T) {
	want, err := os.ReadFile("testdata/alice-binds-admin.txt")
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.WithUser(t.Context(),
		&user.DefaultInfo{Name: "alice", Groups: []string{"dev", "test", "system:authenticated"}})
	err = rbac.ConfirmNoEscalation(ctx, fakeRules{}, "rec", defaults(t).Rules("admin"))
	if diff := cmp.Diff(string(want), fmt.Sprintln(err)); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
}

func TestNotationRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, text := range []string{"clusterrole", "\tallow get core pods", "clusterrole a\n\tallow get core",
		"clusterrole a\n\tto user:a what", "role a b\n\tsum-of x", "clusterrole a\n\tgrant x"} {
		if err := (&Policy{}).parse("t", text); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
}

func TestEveryBindingRefersToARole(t *testing.T) {
	s := defaults(t)
	names := map[string]bool{}
	for _, r := range s.ClusterRoles {
		if names[r.Name] {
			t.Errorf("ClusterRole %s twice", r.Name)
		}
		names[r.Name] = true
		if len(r.Rules) == 0 {
			t.Errorf("ClusterRole %s has no rules", r.Name)
		}
	}
	for _, b := range s.ClusterRoleBindings {
		if !names[b.RoleRef.Name] {
			t.Errorf("ClusterRoleBinding %s refers to %s, which is not there", b.Name, b.RoleRef.Name)
		}
	}
	if len(s.ClusterRoles) < 65 || len(s.RoleBindings) != 8 {
		t.Errorf("%d ClusterRoles, %d RoleBindings", len(s.ClusterRoles), len(s.RoleBindings))
	}
}

func writes(c *fake.Clientset) (out []string) {
	for _, a := range c.Actions() {
		if v := a.GetVerb(); v != "get" && v != "list" && v != "watch" {
			out = append(out, v+" "+a.GetResource().Resource)
		}
	}
	return out
}

func TestEnsureWritesWhatIsMissingAndNothingElse(t *testing.T) {
	s := defaults(t)
	c := fake.NewSimpleClientset()
	if err := Reconcile(t.Context(), c, s); err != nil {
		t.Fatal(err)
	}
	// and two namespaces
	want := len(s.ClusterRoles) + len(s.ClusterRoleBindings) + len(s.Roles) + len(s.RoleBindings) + 2
	if n := len(writes(c)); n < want {
		t.Fatalf("%d writes at first, want at least %d", n, want)
	}
	c.ClearActions()
	if err := Reconcile(t.Context(), c, s); err != nil {
		t.Fatal(err)
	}
	if w := writes(c); len(w) != 0 || len(c.Actions()) != 4 {
		t.Errorf("second run wrote %v with %d requests, want nothing with 4", w, len(c.Actions()))
	}
	// Somebody removed rights from the scheduler, somebody else added some.
	r, err := c.RbacV1().ClusterRoles().Get(t.Context(), "system:kube-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"things"}}
	r.Rules = append(r.Rules[5:], own)
	if _, err := c.RbacV1().ClusterRoles().Update(t.Context(), r, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.ClearActions()
	if err := Reconcile(t.Context(), c, s); err != nil {
		t.Fatal(err)
	}
	if w := writes(c); !slices.Equal(w, []string{"update clusterroles"}) {
		t.Errorf("writes: got %v, want %v", w, []string{"update clusterroles"})
	}
	r, _ = c.RbacV1().ClusterRoles().Get(t.Context(), "system:kube-scheduler", metav1.GetOptions{})
	if !slices.ContainsFunc(r.Rules, func(x rbacv1.PolicyRule) bool { return reflect.DeepEqual(x, own) }) {
		t.Error("the administrator's own rule is gone")
	}
}

func TestEnsureReportsWhatItCannotWrite(t *testing.T) {
	c := fake.NewSimpleClientset()
	c.PrependReactor("create", "roles", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	if err := Reconcile(t.Context(), c, defaults(t)); err == nil || !strings.Contains(err.Error(), "bootstrap role") {
		t.Errorf("error %v", err)
	}
}

func TestSumFollowsLabels(t *testing.T) {
	rule := func(res string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{res}}
	}
	role := func(name, label string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}},
			Rules: rules}
	}
	sum := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "sum", Labels: map[string]string{"x": "true"}},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"x": "true"}}, {MatchLabels: map[string]string{"y": "true"}},
		}},
	}
	got, err := clusterrole.AggregateRules(sum, []*rbacv1.ClusterRole{sum, role("b", "x", rule("b")),
		role("a", "x", rule("a"), rule("b")), role("c", "y", rule("c"), rule("a")), role("d", "z", rule("d"))})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range got {
		names = append(names, r.Resources[0])
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Errorf("sum: got %v, want %v", names, []string{"a", "b", "c"})
	}
}
