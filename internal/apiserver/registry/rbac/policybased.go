package rbac

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth/rbac"
)

// Lookup finds the store of a served kind.
type Lookup func(group, resource string) rest.StandardStorage

// PolicyBased returns what wraps the stores of the four kinds: nobody writes a role or binding that
// gives more than they hold themselves, except who may "escalate" or "bind" and system:masters.
func PolicyBased(lookup Lookup,
	a authorizer.Authorizer) map[schema.GroupResource]func(rest.StandardStorage) rest.Storage {
	out := map[schema.GroupResource]func(rest.StandardStorage) rest.Storage{}
	for resource, singular := range map[string]string{
		"roles": "role", "clusterroles": "clusterrole", "rolebindings": "rolebinding",
		"clusterrolebindings": "clusterrolebinding",
	} {
		out[rbacv1.Resource(resource)] = func(s rest.StandardStorage) rest.Storage {
			return &policyBasedStorage{StandardStorage: s, resource: rbacv1.Resource(resource), singular: singular,
				lookup: lookup, authorizer: a}
		}
	}
	return out
}

type policyBasedStorage struct {
	rest.StandardStorage
	resource   schema.GroupResource
	singular   string
	lookup     Lookup
	authorizer authorizer.Authorizer
}

// GetSingularName implements rest.SingularNameProvider.
func (g *policyBasedStorage) GetSingularName() string { return g.singular }

// NamespaceScoped implements rest.Scoper.
func (g *policyBasedStorage) NamespaceScoped() bool {
	return g.resource.Resource == "roles" || g.resource.Resource == "rolebindings"
}

// Create implements rest.Creater.
func (g *policyBasedStorage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (runtime.Object, error) {
	if err := g.checkEscalation(ctx, obj); err != nil {
		return nil, err
	}
	return g.StandardStorage.Create(ctx, obj, validate, o)
}

// Update implements rest.Updater.
func (g *policyBasedStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, forceCreate bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	checked := rest.WrapUpdatedObjectInfo(info,
		func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
			if onlyOwnershipChanged(obj, old) {
				return obj, nil
			}
			return obj, g.checkEscalation(ctx, obj)
		})
	return g.StandardStorage.Update(ctx, name, checked, create, update, forceCreate, o)
}

// onlyOwnershipChanged tells that a change touches owner references and finalizers alone: what
// garbage collection writes gives nobody rights.
func onlyOwnershipChanged(obj, old runtime.Object) bool {
	if old == nil || obj == nil {
		return false
	}
	copied := obj.DeepCopyObject()
	c, err := meta.Accessor(copied)
	if err != nil {
		return false
	}
	previous, err := meta.Accessor(old)
	if err != nil || previous.GetResourceVersion() == "" {
		return false
	}
	c.SetOwnerReferences(previous.GetOwnerReferences())
	c.SetFinalizers(previous.GetFinalizers())
	c.SetManagedFields(previous.GetManagedFields())
	return equality.Semantic.DeepEqual(copied, old)
}

func (g *policyBasedStorage) checkEscalation(ctx context.Context, obj runtime.Object) error {
	policy := storedPolicy{ctx, g.lookup}
	switch o := obj.(type) {
	case *rbacv1.Role:
		ns, _ := request.NamespaceFrom(ctx)
		return g.confirmRules(ctx, grantedRules{o.Name, ns, o.Rules, false})
	case *rbacv1.ClusterRole:
		return g.confirmRules(ctx, grantedRules{o.Name, "", o.Rules, o.AggregationRule != nil})
	case *rbacv1.RoleBinding:
		ns, ok := request.NamespaceFrom(ctx)
		if !ok {
			return apierrors.NewBadRequest("namespace is required")
		}
		return g.confirmBinding(ctx, policy, grantedBinding{o.Name, ns, o.RoleRef})
	case *rbacv1.ClusterRoleBinding:
		return g.confirmBinding(ctx, policy, grantedBinding{o.Name, "", o.RoleRef})
	}
	return nil
}

// grantedRules is rules somebody wants to write down.
type grantedRules struct {
	name, namespace string
	rules           []rbacv1.PolicyRule
	aggregates      bool
}

func (g *policyBasedStorage) confirmRules(ctx context.Context, w grantedRules) error {
	on := authorizer.AttributesRecord{Resource: g.resource.Resource, Namespace: w.namespace}
	if info, ok := request.RequestInfoFrom(ctx); ok {
		on.Name = info.Name
	}
	if rbac.HasVerb(ctx, g.authorizer, "escalate", on) {
		return nil
	}
	policy := storedPolicy{ctx, g.lookup}
	if err := rbac.ConfirmNoEscalation(ctx, policy, w.namespace, w.rules); err != nil {
		return apierrors.NewForbidden(g.resource, w.name, err)
	}
	if w.aggregates && !aggregationAllowed(ctx, policy) {
		return apierrors.NewForbidden(g.resource, w.name, errAggregate)
	}
	return nil
}

// grantedBinding is a role somebody wants to give out.
type grantedBinding struct {
	name, namespace string
	ref             rbacv1.RoleRef
}

func (g *policyBasedStorage) confirmBinding(ctx context.Context, policy storedPolicy, b grantedBinding) error {
	on := authorizer.AttributesRecord{Namespace: b.namespace, Name: b.ref.Name, Resource: "clusterroles"}
	if b.ref.Kind == "Role" {
		on.Resource = "roles"
	}
	if isPrivileged(ctx) || rbac.HasVerb(ctx, g.authorizer, "bind", on) {
		return nil
	}
	rules, err := rbac.GetRoleReferenceRules(policy, b.ref, b.namespace)
	if err != nil {
		return err
	}
	if err := rbac.ConfirmNoEscalation(ctx, policy, b.namespace, rules); err != nil {
		return apierrors.NewForbidden(g.resource, b.name, err)
	}
	return nil
}

// storedPolicy reads roles and bindings from the stores themselves, so that what was just written
// counts.
type storedPolicy struct {
	ctx    context.Context // of one request, which this value does not outlive
	lookup Lookup
}

func (s storedPolicy) get(resource, namespace, name string) (runtime.Object, error) {
	return s.lookup(rbacv1.GroupName, resource).Get(request.WithNamespace(s.ctx, namespace), name, &metav1.GetOptions{})
}

func (s storedPolicy) list(resource, namespace string) (runtime.Object, error) {
	return s.lookup(rbacv1.GroupName, resource).List(request.WithNamespace(s.ctx, namespace),
		&internalversion.ListOptions{})
}

// Role implements rbac.PolicyReader.
func (s storedPolicy) Role(namespace, name string) (*rbacv1.Role, error) {
	o, err := s.get("roles", namespace, name)
	if err != nil {
		return nil, err
	}
	return o.(*rbacv1.Role), nil
}

// ClusterRole implements rbac.PolicyReader.
func (s storedPolicy) ClusterRole(name string) (*rbacv1.ClusterRole, error) {
	o, err := s.get("clusterroles", "", name)
	if err != nil {
		return nil, err
	}
	return o.(*rbacv1.ClusterRole), nil
}

// RoleBindings implements rbac.PolicyReader.
func (s storedPolicy) RoleBindings(namespace string) ([]*rbacv1.RoleBinding, error) {
	o, err := s.list("rolebindings", namespace)
	if err != nil {
		return nil, err
	}
	items := o.(*rbacv1.RoleBindingList).Items
	out := make([]*rbacv1.RoleBinding, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out, nil
}

// ClusterRoleBindings implements rbac.PolicyReader.
func (s storedPolicy) ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error) {
	o, err := s.list("clusterrolebindings", "")
	if err != nil {
		return nil, err
	}
	items := o.(*rbacv1.ClusterRoleBindingList).Items
	out := make([]*rbacv1.ClusterRoleBinding, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out, nil
}
