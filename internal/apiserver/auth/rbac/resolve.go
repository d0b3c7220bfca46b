package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// Policy is where roles and bindings are read from. Objects are shared: nobody changes them.
type Policy interface {
	Role(namespace, name string) (*rbacv1.Role, error)
	ClusterRole(name string) (*rbacv1.ClusterRole, error)
	RoleBindings(namespace string) ([]*rbacv1.RoleBinding, error)
	ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error)
}

// Listers is the Policy kept by informers.
type Listers struct {
	Roles                rbaclisters.RoleLister
	ClusterRoles         rbaclisters.ClusterRoleLister
	RoleBindingsIn       rbaclisters.RoleBindingLister
	ClusterRoleBindingsL rbaclisters.ClusterRoleBindingLister
}

// Role implements Policy.
func (l Listers) Role(namespace, name string) (*rbacv1.Role, error) {
	return l.Roles.Roles(namespace).Get(name)
}

// ClusterRole implements Policy.
func (l Listers) ClusterRole(name string) (*rbacv1.ClusterRole, error) {
	return l.ClusterRoles.Get(name)
}

// RoleBindings implements Policy.
func (l Listers) RoleBindings(namespace string) ([]*rbacv1.RoleBinding, error) {
	return l.RoleBindingsIn.RoleBindings(namespace).List(labels.Everything())
}

// ClusterRoleBindings implements Policy.
func (l Listers) ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error) {
	return l.ClusterRoleBindingsL.List(labels.Everything())
}

// visit is told each rule that applies to a user, with what gives it, or an error in finding out. It returns false to stop.
type visit func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool

type clusterSource struct {
	binding *rbacv1.ClusterRoleBinding
	subject *rbacv1.Subject
}

// String prints what an allowed request is allowed by.
func (s clusterSource) String() string {
	return fmt.Sprintf("ClusterRoleBinding %q of %s %q to %s", s.binding.Name, s.binding.RoleRef.Kind, s.binding.RoleRef.Name, subjectText(s.subject))
}

type namespaceSource struct {
	binding *rbacv1.RoleBinding
	subject *rbacv1.Subject
}

// String prints what an allowed request is allowed by.
func (s namespaceSource) String() string {
	return fmt.Sprintf("RoleBinding %q of %s %q to %s", s.binding.Name+"/"+s.binding.Namespace, s.binding.RoleRef.Kind, s.binding.RoleRef.Name, subjectText(s.subject))
}

// eachRule visits the rules of a user: those that hold everywhere, then those of the namespace, if one is given.
func eachRule(p Policy, who user.Info, namespace string, v visit) {
	everywhere, err := p.ClusterRoleBindings()
	if err != nil && !v(nil, nil, err) {
		return
	}
	for _, b := range everywhere {
		s := applies(who, b.Subjects, "")
		if s == nil {
			continue
		}
		if !v.of(p, applied{b.RoleRef, "", clusterSource{b, s}}) {
			return
		}
	}
	if namespace == "" {
		return
	}
	here, err := p.RoleBindings(namespace)
	if err != nil && !v(nil, nil, err) {
		return
	}
	for _, b := range here {
		s := applies(who, b.Subjects, namespace)
		if s == nil {
			continue
		}
		if !v.of(p, applied{b.RoleRef, namespace, namespaceSource{b, s}}) {
			return
		}
	}
}

// applied is a role that applies to a user, by a binding.
type applied struct {
	ref       rbacv1.RoleRef
	namespace string
	source    fmt.Stringer
}

// of visits the rules of one role.
func (v visit) of(p Policy, a applied) bool {
	rules, err := RulesOf(p, a.ref, a.namespace)
	if err != nil {
		return v(nil, nil, err)
	}
	for i := range rules {
		if !v(a.source, &rules[i], nil) {
			return false
		}
	}
	return true
}

// RulesOf returns the rules of the role a binding refers to.
func RulesOf(p Policy, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	switch ref.Kind {
	case "Role":
		r, err := p.Role(namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		return r.Rules, nil
	case "ClusterRole":
		r, err := p.ClusterRole(ref.Name)
		if err != nil {
			return nil, err
		}
		return r.Rules, nil
	}
	return nil, fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}

// UserRules returns every rule of a user in a namespace ("" for the cluster scope), and what could not be found out. A binding to a role that
// does not exist is no error.
func UserRules(p Policy, who user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	eachRule(p, who, namespace, func(_ fmt.Stringer, r *rbacv1.PolicyRule, err error) bool {
		if r != nil {
			rules = append(rules, *r)
		}
		if err != nil {
			errs = append(errs, err)
		}
		return true
	})
	return rules, utilerrors.NewAggregate(errs)
}
