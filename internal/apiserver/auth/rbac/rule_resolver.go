package rbac

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// PolicyReader is where roles and bindings are read from. Objects are shared: nobody changes them.
type PolicyReader interface {
	Role(namespace, name string) (*rbacv1.Role, error)
	ClusterRole(name string) (*rbacv1.ClusterRole, error)
	RoleBindings(namespace string) ([]*rbacv1.RoleBinding, error)
	ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error)
}

// Listers is the PolicyReader kept by informers.
type Listers struct {
	Roles                    rbaclisters.RoleLister
	ClusterRoles             rbaclisters.ClusterRoleLister
	RoleBindingLister        rbaclisters.RoleBindingLister
	ClusterRoleBindingLister rbaclisters.ClusterRoleBindingLister
}

// Role implements PolicyReader.
func (l Listers) Role(namespace, name string) (*rbacv1.Role, error) {
	return l.Roles.Roles(namespace).Get(name)
}

// ClusterRole implements PolicyReader.
func (l Listers) ClusterRole(name string) (*rbacv1.ClusterRole, error) {
	return l.ClusterRoles.Get(name)
}

// RoleBindings implements PolicyReader.
func (l Listers) RoleBindings(namespace string) ([]*rbacv1.RoleBinding, error) {
	return l.RoleBindingLister.RoleBindings(namespace).List(labels.Everything())
}

// ClusterRoleBindings implements PolicyReader.
func (l Listers) ClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error) {
	return l.ClusterRoleBindingLister.List(labels.Everything())
}

// ruleVisitor is told each rule that applies to a user, with what gives it, or an error in finding
// out. It returns false to stop.
type ruleVisitor func(source fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool

type clusterRoleBindingDescriber struct {
	binding *rbacv1.ClusterRoleBinding
	subject *rbacv1.Subject
}

// String prints what an allowed request is allowed by.
func (s clusterRoleBindingDescriber) String() string {
	return fmt.Sprintf("ClusterRoleBinding %q of %s %q to %s", s.binding.Name, s.binding.RoleRef.Kind,
		s.binding.RoleRef.Name, describeSubject(s.subject))
}

type roleBindingDescriber struct {
	binding *rbacv1.RoleBinding
	subject *rbacv1.Subject
}

// String prints what an allowed request is allowed by.
func (s roleBindingDescriber) String() string {
	return fmt.Sprintf("RoleBinding %q of %s %q to %s", s.binding.Name+"/"+s.binding.Namespace, s.binding.RoleRef.Kind,
		s.binding.RoleRef.Name, describeSubject(s.subject))
}

// visitRulesFor visits the rules of a user: those that hold everywhere, then those of the
// namespace, if one is given.
func visitRulesFor(p PolicyReader, userInfo user.Info, namespace string, v ruleVisitor) {
	everywhere, err := p.ClusterRoleBindings()
	if err != nil && !v(nil, nil, err) {
		return
	}
	for _, b := range everywhere {
		s := appliesTo(userInfo, b.Subjects, "")
		if s == nil {
			continue
		}
		if !v.visitRole(p, appliedRole{b.RoleRef, "", clusterRoleBindingDescriber{b, s}}) {
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
		s := appliesTo(userInfo, b.Subjects, namespace)
		if s == nil {
			continue
		}
		if !v.visitRole(p, appliedRole{b.RoleRef, namespace, roleBindingDescriber{b, s}}) {
			return
		}
	}
}

// appliedRole is a role that applies to a user, by a binding.
type appliedRole struct {
	ref       rbacv1.RoleRef
	namespace string
	source    fmt.Stringer
}

// visitRole visits the rules of one role.
func (v ruleVisitor) visitRole(p PolicyReader, a appliedRole) bool {
	rules, err := GetRoleReferenceRules(p, a.ref, a.namespace)
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

// GetRoleReferenceRules returns the rules of the role a binding refers to.
func GetRoleReferenceRules(p PolicyReader, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
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

// RulesForUser returns every rule of a user in a namespace ("" for the cluster scope), and what
// could not be found out. A binding to a role that does not exist is no error.
func RulesForUser(p PolicyReader, userInfo user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var errs []error
	visitRulesFor(p, userInfo, namespace, func(_ fmt.Stringer, r *rbacv1.PolicyRule, err error) bool {
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
