package auth_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
)

// Who may read a Pod's logs may not run commands in it, and the other way round: each is a right of
// its own, given by a Role.
//
// row: KAP-15
func TestLogsAndExecAreRightsOfTheirOwn(t *testing.T) {
	s := serve(t, auth.Options{})
	s.pod(t, podNamed("web"))
	admin := s.clientAs(t, master())
	grant := func(user, resource, verb string) kubernetes.Interface {
		t.Helper()
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}}}
		if _, err := admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}}}
		if _, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), binding,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return s.named(t, user)
	}
	logs := func(c kubernetes.Interface) error {
		return c.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{}).Do(t.Context()).Error()
	}
	exec := func(c kubernetes.Interface) error {
		return c.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("exec").
			Param("command", "ls").Param("stdout", "true").Do(t.Context()).Error()
	}
	for _, c := range []struct {
		user, resource, verb string
		logs, exec           bool
	}{
		{"reader", "pods/log", "get", true, false},
		{"runner", "pods/exec", "create", false, true},
		{"viewer", "pods", "get", false, false},
	} {
		client := grant(c.user, c.resource, c.verb)
		eventually(t, func() error {
			for what, is := range map[string]struct {
				err error
				may bool
			}{"logs": {logs(client), c.logs}, "exec": {exec(client), c.exec}} {
				// the Pod is on no node, so who may run a command is told that
				if apierrors.IsForbidden(is.err) == is.may {
					return fmt.Errorf("%s with %s of %s: got %v, want allowed %t", what, c.verb, c.resource, is.err,
						is.may)
				}
			}
			return nil
		})
	}
}
