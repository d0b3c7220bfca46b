package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func row(t *testing.T, name string) resourcedef.Kind {
	t.Helper()
	for _, k := range Kinds() {
		if k.Kind == name {
			return k
		}
	}
	t.Fatalf("no row of %s", name)
	return resourcedef.Kind{}
}

// What upstream v1.36.3 answered (recordings, validation/role*.json and clusterrole*.json).
func TestTextsAreUpstreams(t *testing.T) {
	const user = `"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"u"}]`
	const ref = `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}`
	const clusterRef = `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}`
	for _, c := range []struct{ kind, body, want string }{
		{"Role", `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`, ""},
		{"Role", `"rules":[{"apiGroups":[""],"verbs":["get"]}]`,
			"rules[0].resources: Required value: resource rules must supply at least one resource"},
		{"Role", `"rules":[{"resources":["pods"],"verbs":["get"]}]`,
			"rules[0].apiGroups: Required value: resource rules must supply at least one api group"},
		{"Role", `"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`,
			`rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`},
		{"Role", `"rules":[{"apiGroups":[""],"resources":["pods"],"nonResourceURLs":["/x"],"verbs":["get"]}]`,
			`[rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs,` +
				` rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and ` +
				`non-resource URLs]`},
		{"ClusterRole", `"rules":[{"apiGroups":[""],"resources":["pods"]}]`, "rules[0].verbs: Required value"},
		{"ClusterRole", `"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]`, ""},
		{"ClusterRole",
			`"aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"X"}]}]}`,
			`[aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "X": not a valid ` +
				`selector operator, aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label ` +
				`selector.]`},
		{"RoleBinding", user,
			`[roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole", roleRef.name: Required ` +
				`value]`},
		{"RoleBinding", ref + `,"subjects":[{"kind":"X","name":"u"}]`,
			`subjects[0].kind: Unsupported value: "X": supported values: "ServiceAccount", "User", "Group"`},
		{"RoleBinding", ref + `,"subjects":[{"kind":"User","name":""}]`, "subjects[0].name: Required value"},
		{"RoleBinding", ref + `,"subjects":[{"kind":"User","apiGroup":"x","name":"u"}]`,
			`subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`},
		{"RoleBinding", ref + `,"subjects":[{"kind":"ServiceAccount","name":"u"}]`, ""},
		{"RoleBinding", ref, ""},
		{"ClusterRoleBinding", clusterRef + `,"subjects":[{"kind":"ServiceAccount","name":"u"}]`,
			"subjects[0].namespace: Required value"},
		{"ClusterRoleBinding", ref + "," + user,
			`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`},
		{"ClusterRoleBinding", `"roleRef":{"apiGroup":"x.example.com","kind":"ClusterRole","name":"view"}`,
			`roleRef.apiGroup: Unsupported value: "x.example.com": supported values: "rbac.authorization.k8s.io"`},
	} {
		t.Run(c.kind+" "+c.body, func(t *testing.T) {
			k := row(t, c.kind)
			obj := decode(t, k, c.body)
			got := ""
			if err := k.Rules.Validate(t.Context(), obj).ToAggregate(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func decode(t *testing.T, k resourcedef.Kind, body string) runtime.Object {
	t.Helper()
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{})
	gvk := rbacv1.SchemeGroupVersion.WithKind(k.Kind)
	obj, _, err := s.Decode(
		[]byte(`{"kind":"`+k.Kind+`","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"x"},`+body+`}`),
		&gvk, nil)
	if err != nil {
		t.Fatal(err)
	}
	if k.Rules.Default != nil {
		k.Rules.Default(obj)
	}
	return obj
}

func TestARoleRefStays(t *testing.T) {
	k := row(t, "RoleBinding")
	old := decode(t, k, `"roleRef":{"kind":"Role","name":"r"}`)
	now := decode(t, k, `"roleRef":{"kind":"Role","name":"z"}`)
	want := `roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"z"}: field is ` +
		`immutable`
	if err := k.Rules.ValidateUpdate(t.Context(), now, old).ToAggregate(); err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
}

func TestTableOfABinding(t *testing.T) {
	k := row(t, "ClusterRoleBinding")
	obj := decode(t, k,
		`"roleRef":{"kind":"ClusterRole","name":"view"},"subjects":[{"kind":"User","name":"u"},{"kind":"Group",`+
			`"name":"g"},{"kind":"ServiceAccount","namespace":"n","name":"s"}]`)
	cells := k.Table.Row(obj, resourcedef.RowOptions{Now: metav1.Now()})
	want := []any{"x", "ClusterRole/view", "<unknown>", "u", "g", "n/s"}
	if len(cells) != len(k.Table.Columns) {
		t.Fatalf("%d cells for %d columns", len(cells), len(k.Table.Columns))
	}
	for i := range want {
		if cells[i] != want[i] {
			t.Errorf("%s: %v, want %v", k.Table.Columns[i].Name, cells[i], want[i])
		}
	}
	if got := k.Table.Columns[1].Description; got != "roleRef can only reference a ClusterRole in the global "+
		"namespace. If the RoleRef cannot be resolved, the Authorizer must return an error." {
		t.Errorf("description %q, want %v", got, "roleRef can only reference a ClusterRole in the global "+
			"namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.")
	}
}
