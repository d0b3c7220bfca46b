package bootstrappolicy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
)

// maxParallelWrites is how many roles and bindings are written at once.
const maxParallelWrites = 8

// Reconcile writes what the cluster lacks of a set. It reads everything with four lists, so that a
// cluster that lacks nothing costs nothing more. It needs a client that may do anything, and the
// namespaces kube-system and kube-public are made when they are not there.
func Reconcile(ctx context.Context, c kubernetes.Interface, s *Policy) error {
	have, err := listExisting(ctx, c)
	if err != nil {
		return fmt.Errorf("bootstrap roles: %w", err)
	}
	var work []func() error
	for _, r := range s.ClusterRoles {
		work = append(work, func() error {
			return ensureRole(reconciliation.ClusterRoleRuleOwner{ClusterRole: r.DeepCopy()},
				clusterRoleModifier{have, reconciliation.ClusterRoleModifier{Client: c.RbacV1().ClusterRoles()}})
		})
	}
	for _, b := range s.ClusterRoleBindings {
		work = append(work, func() error {
			return ensureBinding(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: b.DeepCopy()},
				clusterRoleBindingModifier{have,
					reconciliation.ClusterRoleBindingClientAdapter{Client: c.RbacV1().ClusterRoleBindings()}})
		})
	}
	for _, r := range s.Roles {
		work = append(work, func() error {
			return ensureRole(reconciliation.RoleRuleOwner{Role: r.DeepCopy()},
				roleModifier{have, reconciliation.RoleModifier{Client: c.RbacV1(),
					NamespaceClient: c.CoreV1().Namespaces()}})
		})
	}
	for _, b := range s.RoleBindings {
		work = append(work, func() error {
			return ensureBinding(reconciliation.RoleBindingAdapter{RoleBinding: b.DeepCopy()},
				roleBindingModifier{have, reconciliation.RoleBindingClientAdapter{Client: c.RbacV1(),
					NamespaceClient: c.CoreV1().Namespaces()}})
		})
	}
	return runParallel(ctx, work)
}

// runParallel does the work, several at a time, and returns every error.
func runParallel(ctx context.Context, work []func() error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	next := make(chan func() error)
	for range maxParallelWrites {
		wg.Go(func() {
			for task := range next {
				if err := task(); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, task := range work {
		select {
		case next <- task:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		errs = append(errs, ctx.Err())
	}
	return errors.Join(errs...)
}

func ensureRole(r reconciliation.RuleOwner, m reconciliation.RuleOwnerModifier) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := reconciliation.ReconcileRoleOptions{Role: r, Client: m, Confirm: true}
		_, err := o.Run()
		return err
	})
	if err != nil {
		return fmt.Errorf("bootstrap role %s: %w", r.GetName(), err)
	}
	return nil
}

func ensureBinding(b reconciliation.RoleBinding, m reconciliation.RoleBindingModifier) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := reconciliation.ReconcileRoleBindingOptions{RoleBinding: b, Client: m, Confirm: true}
		_, err := o.Run()
		return err
	})
	if err != nil {
		return fmt.Errorf("bootstrap binding %s: %w", b.GetName(), err)
	}
	return nil
}

// existingObjects is what the cluster had when Reconcile began. Names looked up there are taken
// out, so that a second look (after a conflict) asks the server.
type existingObjects struct {
	mu      sync.Mutex
	objects map[string]any
}

func listExisting(ctx context.Context, c kubernetes.Interface) (*existingObjects, error) {
	e := &existingObjects{objects: map[string]any{}}
	o := metav1.ListOptions{}
	cr, err := c.RbacV1().ClusterRoles().List(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range cr.Items {
		e.objects["clusterroles//"+cr.Items[i].Name] = &cr.Items[i]
	}
	cb, err := c.RbacV1().ClusterRoleBindings().List(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range cb.Items {
		e.objects["clusterrolebindings//"+cb.Items[i].Name] = &cb.Items[i]
	}
	r, err := c.RbacV1().Roles("").List(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range r.Items {
		e.objects["roles/"+r.Items[i].Namespace+"/"+r.Items[i].Name] = &r.Items[i]
	}
	b, err := c.RbacV1().RoleBindings("").List(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range b.Items {
		e.objects["rolebindings/"+b.Items[i].Namespace+"/"+b.Items[i].Name] = &b.Items[i]
	}
	return e, nil
}

// take returns what was there at the first look; known is false at later looks.
func (e *existingObjects) take(resource, namespace, name string) (obj any, isFirst bool) {
	key := resource + "/" + namespace + "/" + name
	e.mu.Lock()
	defer e.mu.Unlock()
	obj, seen := e.objects[key]
	if seen && obj == nil {
		return nil, false
	}
	e.objects[key] = nil
	return obj, true
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(rbacv1.Resource(resource), name)
}

type clusterRoleModifier struct {
	existing *existingObjects
	reconciliation.ClusterRoleModifier
}

// Get looks at what was read first, later at the server.
func (m clusterRoleModifier) Get(ns, name string) (reconciliation.RuleOwner, error) {
	switch obj, isFirst := m.existing.take("clusterroles", ns, name); {
	case !isFirst:
		return m.ClusterRoleModifier.Get(ns, name)
	case obj == nil:
		return nil, notFound("clusterroles", name)
	default:
		return reconciliation.ClusterRoleRuleOwner{ClusterRole: obj.(*rbacv1.ClusterRole)}, nil
	}
}

type roleModifier struct {
	existing *existingObjects
	reconciliation.RoleModifier
}

// Get looks at what was read first, later at the server.
func (m roleModifier) Get(ns, name string) (reconciliation.RuleOwner, error) {
	switch obj, isFirst := m.existing.take("roles", ns, name); {
	case !isFirst:
		return m.RoleModifier.Get(ns, name)
	case obj == nil:
		return nil, notFound("roles", name)
	default:
		return reconciliation.RoleRuleOwner{Role: obj.(*rbacv1.Role)}, nil
	}
}

type clusterRoleBindingModifier struct {
	existing *existingObjects
	reconciliation.ClusterRoleBindingClientAdapter
}

// Get looks at what was read first, later at the server.
func (m clusterRoleBindingModifier) Get(ns, name string) (reconciliation.RoleBinding, error) {
	switch obj, isFirst := m.existing.take("clusterrolebindings", ns, name); {
	case !isFirst:
		return m.ClusterRoleBindingClientAdapter.Get(ns, name)
	case obj == nil:
		return nil, notFound("clusterrolebindings", name)
	default:
		return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: obj.(*rbacv1.ClusterRoleBinding)}, nil
	}
}

type roleBindingModifier struct {
	existing *existingObjects
	reconciliation.RoleBindingClientAdapter
}

// Get looks at what was read first, later at the server.
func (m roleBindingModifier) Get(ns, name string) (reconciliation.RoleBinding, error) {
	switch obj, isFirst := m.existing.take("rolebindings", ns, name); {
	case !isFirst:
		return m.RoleBindingClientAdapter.Get(ns, name)
	case obj == nil:
		return nil, notFound("rolebindings", name)
	default:
		return reconciliation.RoleBindingAdapter{RoleBinding: obj.(*rbacv1.RoleBinding)}, nil
	}
}
