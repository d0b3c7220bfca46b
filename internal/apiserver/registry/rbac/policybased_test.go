package rbac_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/rbac"
)

// store holds the objects of one kind by NAMESPACE/NAME, and remembers what was written.
type store struct {
	rest.StandardStorage
	objects map[string]runtime.Object
	list    func(namespace string) runtime.Object
	written runtime.Object
}

func (s *store) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if o := s.objects[request.NamespaceValue(ctx)+"/"+name]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
}

func (s *store) List(ctx context.Context, _ *internalversion.ListOptions) (runtime.Object, error) {
	return s.list(request.NamespaceValue(ctx)), nil
}

func (s *store) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc,
	_ *metav1.CreateOptions) (runtime.Object, error) {
	s.written = obj
	return obj, nil
}

func (s *store) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	_ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, s.objects[request.NamespaceValue(ctx)+"/"+name])
	if err == nil {
		s.written = obj
	}
	return obj, false, err
}

func rule(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
}

// cluster is four stores: ann may read Pods everywhere and Secrets in ns; roles "pods", "secrets"
// and "nodes" give one right each, as ClusterRoles and, in ns, as Roles.
func cluster() map[string]*store {
	roles, clusterRoles := map[string]runtime.Object{}, map[string]runtime.Object{}
	for _, r := range []string{"pods", "secrets", "nodes"} {
		roles["ns/"+r] = &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: r, ResourceVersion: "1"},
			Rules: []rbacv1.PolicyRule{rule("get", r)}}
		clusterRoles["/"+r] = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: r, ResourceVersion: "1"},
			Rules: []rbacv1.PolicyRule{rule("get", r)}}
	}
	ann := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}}
	return map[string]*store{
		"roles": {objects: roles}, "clusterroles": {objects: clusterRoles},
		"clusterrolebindings": {list: func(string) runtime.Object {
			return &rbacv1.ClusterRoleBindingList{Items: []rbacv1.ClusterRoleBinding{{Subjects: ann,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "pods"}}}}
		}},
		"rolebindings": {list: func(namespace string) runtime.Object {
			if namespace != "ns" {
				return &rbacv1.RoleBindingList{}
			}
			return &rbacv1.RoleBindingList{Items: []rbacv1.RoleBinding{{Subjects: ann,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"}}}}
		}},
	}
}

// storages wraps the stores; may says which "VERB RESOURCE NAMESPACE/NAME" the authorizer allows.
func storages(stores map[string]*store, may string, asked *[]string) func(resource string) rest.Storage {
	all := rbac.PolicyBased(func(group, resource string) rest.StandardStorage {
		if group != rbacv1.GroupName {
			return nil
		}
		return stores[resource]
	}, authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		question := fmt.Sprintf("%s %s %s/%s", a.GetVerb(), a.GetResource(), a.GetNamespace(), a.GetName())
		*asked = append(*asked, question)
		if question == may {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}))
	return func(resource string) rest.Storage { return all[rbacv1.Resource(resource)](stores[resource]) }
}

func as(ctx context.Context, name, namespace string, groups ...string) context.Context {
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Name: "asked"})
	return request.WithNamespace(request.WithUser(ctx, &user.DefaultInfo{Name: name, Groups: groups}), namespace)
}

// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
func TestNobodyGivesMoreThanTheyHold(t *testing.T) {
	role := func(resources ...string) *rbacv1.Role {
		r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
		for _, x := range resources {
			r.Rules = append(r.Rules, rule("get", x))
		}
		return r
	}
	clusterRole := func(aggregates bool, resources ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Rules: role(resources...).Rules}
		if aggregates {
			r.AggregationRule = &rbacv1.AggregationRule{}
		}
		return r
	}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	binding := func(kind, name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: ref(kind, name)}
	}
	everywhere := func(name string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: ref("ClusterRole", name)}
	}
	ann, anywhere := as(t.Context(), "ann", "ns"), as(t.Context(), "ann", "")
	master := as(t.Context(), "root", "ns", user.SystemPrivilegedGroup)
	const forbidden = `.rbac.authorization.k8s.io "new" is forbidden: `
	more := func(resource string) string {
		return resource + forbidden + `user "ann" (groups=[]) is attempting to grant RBAC permissions not ` +
			`currently held:`
	}
	for name, c := range map[string]struct {
		ctx      context.Context
		resource string
		obj      runtime.Object
		may      string
		want     string
	}{
		"rights that ann has in the namespace": {ann, "roles", role("pods", "secrets"), "", ""},
		"a right that ann has not":             {ann, "roles", role("nodes"), "", more("roles")},
		"who may escalate":                     {ann, "roles", role("nodes"), "escalate roles ns/asked", ""},
		"a right of the namespace, for everywhere": {anywhere, "clusterroles", clusterRole(false, "secrets"), "",
			more("clusterroles")},
		"a right of everywhere": {anywhere, "clusterroles", clusterRole(false, "pods"), "", ""},
		"a role that aggregates": {anywhere, "clusterroles", clusterRole(true, "pods"), "", "clusterroles" + forbidden +
			"must have cluster-admin privileges to use the aggregationRule"},
		"who may escalate, one that aggregates": {anywhere, "clusterroles", clusterRole(true),
			"escalate clusterroles /asked", ""},
		"the privileged": {master, "clusterroles", clusterRole(true, "nodes"),
			"", ""},
		"a Role that ann has": {ann, "rolebindings", binding("Role", "secrets"),
			"", ""},
		"a Role that ann has not": {ann, "rolebindings", binding("Role", "nodes"), "",
			more("rolebindings")},
		"who may bind the Role": {ann, "rolebindings", binding("Role", "nodes"),
			"bind roles ns/nodes", ""},
		"who may bind the ClusterRole of its name alone": {ann, "rolebindings", binding("Role", "nodes"),
			"bind clusterroles ns/nodes", more("rolebindings")},
		"a ClusterRole in the namespace": {ann, "rolebindings", binding("ClusterRole",
			"secrets"), "", ""},
		"a ClusterRole everywhere": {anywhere, "clusterrolebindings",
			everywhere("pods"), "", ""},
		"a ClusterRole everywhere that ann has in the namespace": {anywhere, "clusterrolebindings",
			everywhere("secrets"), "", more("clusterrolebindings")},
		"who may bind it": {anywhere, "clusterrolebindings",
			everywhere("nodes"), "bind clusterroles /nodes", ""},
		"a role that is not there": {ann, "rolebindings", binding("Role", "none"), "",
			`roles.rbac.authorization.k8s.io "none" not found`},
		"the privileged bind what is not there": {master, "rolebindings", binding("Role", "none"),
			"", ""},
		"a binding without a namespace": {request.WithUser(t.Context(), &user.DefaultInfo{Name: "ann"}), "rolebindings",
			binding("Role", "pods"), "", "namespace is required"},
	} {
		stores, asked := cluster(), []string{}
		_, err := storages(stores, c.may, &asked)(c.resource).(rest.Creater).Create(c.ctx, c.obj, nil, nil)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got  %s\nwant %q; asked %q", name, got, c.want, asked)
		}
		if written := stores[c.resource].written != nil; written != (c.want == "") {
			t.Errorf("%s: written %v, want %v", name, written, c.want == "")
		}
	}
}

// A change that gives nothing, as garbage collection makes them, needs no rights.
func TestChangesOfOwnership(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*rbacv1.Role)
		refused bool
	}{
		"nothing":    {func(*rbacv1.Role) {}, false},
		"owners":     {func(r *rbacv1.Role) { r.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, false},
		"finalizers": {func(r *rbacv1.Role) { r.Finalizers = []string{"a/b"} }, false},
		"field managers": {func(r *rbacv1.Role) { r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} },
			false},
		"labels": {func(r *rbacv1.Role) { r.Labels = map[string]string{"a": "b"} }, true},
		"rules and owners": {func(r *rbacv1.Role) { r.Rules[0].Verbs, r.Finalizers = []string{"*"}, []string{"a/b"} },
			true},
	} {
		stores, asked := cluster(), []string{}
		changed := stores["roles"].objects["ns/nodes"].DeepCopyObject().(*rbacv1.Role)
		c.change(changed)
		s := storages(stores, "", &asked)("roles").(rest.Updater)
		_, _, err := s.Update(as(t.Context(), "ann", "ns"), "nodes", rest.DefaultUpdatedObjectInfo(changed), nil, nil,
			false,
			nil)
		if (err != nil) != c.refused || (stores["roles"].written == nil) != c.refused {
			t.Errorf("%s: got %v, want refused %v", name, err, c.refused)
		}
	}
	// one that is not stored yet may be created by an update: its rules count
	stores, asked := cluster(), []string{}
	s := storages(stores, "", &asked)("roles").(rest.Updater)
	unsaved := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Rules: []rbacv1.PolicyRule{rule("get",
		"nodes")}}
	stores["roles"].objects["ns/nodes"] = unsaved
	if _, _, err := s.Update(as(t.Context(), "ann", "ns"), "nodes", rest.DefaultUpdatedObjectInfo(unsaved.DeepCopy()),
		nil,
		nil, false, nil); err == nil {
		t.Error("an object without a resourceVersion: got it written, want it refused")
	}
}

func TestPolicyBasedStorages(t *testing.T) {
	get := storages(cluster(), "", new([]string))
	for resource, want := range map[string]string{"roles": "role true", "rolebindings": "rolebinding true",
		"clusterroles": "clusterrole false", "clusterrolebindings": "clusterrolebinding false"} {
		s := get(resource)
		got := fmt.Sprintf("%s %v", s.(rest.SingularNameProvider).GetSingularName(), s.(rest.Scoper).NamespaceScoped())
		if got != want {
			t.Errorf("%s: got %q, want %q", resource, got, want)
		}
	}
}
