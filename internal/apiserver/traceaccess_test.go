package apiserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// UseDefaultAccess puts RBAC, authentication and the default admission plugins into a
// configuration. The external test package sets it, as internal/apiserver/auth imports this
// package.
var UseDefaultAccess func(t *testing.T, c *Config)

// TestADryRunLeavesNoTraceWithRBACAndAdmission is TestADryRunLeavesNoTrace with RBAC and the
// default admission plugins, under a quota that counts what is made.
func TestADryRunLeavesNoTraceWithRBACAndAdmission(t *testing.T) {
	t.Parallel()
	c := testConfig(t.TempDir())
	UseDefaultAccess(t, &c)
	dryRuns(t, c, func(c kubernetes.Interface, ns string) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		mustCreate[*corev1.ServiceAccount](t)(c.CoreV1().ServiceAccounts(ns).Create(t.Context(), account,
			metav1.CreateOptions{}))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} // a resize looks at the Pod's node
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		mustCreate[*corev1.Node](t)(c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))
		hard := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{"pods", "services", "secrets", "configmaps",
			"count/deployments.apps"} {
			hard[name] = resource.MustParse("100")
		}
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "counts"},
			Spec: corev1.ResourceQuotaSpec{Hard: hard}}
		q = mustCreate[*corev1.ResourceQuota](t)(c.CoreV1().ResourceQuotas(ns).Create(t.Context(), q,
			metav1.CreateOptions{}))
		q.Status.Hard, q.Status.Used = hard, corev1.ResourceList{}
		for name := range hard {
			q.Status.Used[name] = resource.MustParse("0")
		}
		mustCreate[*corev1.ResourceQuota](t)(c.CoreV1().ResourceQuotas(ns).UpdateStatus(t.Context(), q,
			metav1.UpdateOptions{}))
	})
}

// reviewBodies are kinds that can only be created, by resource: what reviews ask, and a binding of
// the Pod unbound.
var reviewBodies = map[string]string{
	"subjectaccessreviews":     `{"spec":{"user":"u","resourceAttributes":{"verb":"get","resource":"pods"}}}`,
	"selfsubjectaccessreviews": `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`,
	"localsubjectaccessreviews": `{"spec":{"user":"u","resourceAttributes":{"namespace":"NS","verb":"get",` +
		`"resource":"pods"}}}`,
	"selfsubjectrulesreviews": `{"spec":{"namespace":"NS"}}`,
	"tokenreviews":            `{"spec":{"token":"none"}}`,
	"selfsubjectreviews":      `{}`,
	"bindings":                `{"metadata":{"name":"unbound"},"target":{"kind":"Node","name":"n9"}}`,
}

// reviews sends every served kind that can be created and nothing else.
func (d *traceSession) reviews(lists []*metav1.APIResourceList, ns string) {
	pod := `{"metadata":{"name":"unbound"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	if code, text := d.do(http.MethodPost, "/api/v1/namespaces/"+ns+"/pods", "application/json", pod); code >= 300 {
		d.t.Errorf("the Pod that is to be bound: got %d %s, want 201", code, text)
	}
	d.waitUntilIdle("Pod")
	for _, l := range lists {
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Equal(r.Verbs, metav1.Verbs{"create"}) || d.worked[r.Name+
				" create"] {
				continue
			}
			body, ok := reviewBodies[r.Name]
			if !ok {
				d.t.Errorf("%s %s can only be created: got no dry run of it, want one in reviewBodies", l.GroupVersion,
					r.Name)
				continue
			}
			path := "/apis/" + l.GroupVersion
			if l.GroupVersion == "v1" {
				path = "/api/v1"
			}
			if r.Namespaced {
				path += "/namespaces/" + ns
			}
			body = strings.ReplaceAll(body, "NS", ns)
			d.send(r.Name, "", call{"create", http.MethodPost, path + "/" + r.Name, "", "application/json", body})
		}
	}
}
