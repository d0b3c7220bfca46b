package rbac

import (
	"context"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	rbacv1beta1 "k8s.io/api/rbac/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	return []resourcedef.Kind{roles(), clusterRoles(), roleBindings(), clusterRoleBindings()}
}

// rules are what the four kinds have in common.
func rules(validate func(runtime.Object) field.ErrorList,
	change func(obj, old runtime.Object) field.ErrorList) resourcedef.Rules {
	return resourcedef.Rules{
		Validate: func(_ context.Context, o runtime.Object) field.ErrorList { return validate(o) },
		ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
			errs := validate(o)
			if change != nil {
				errs = append(errs, change(o, old)...)
			}
			return errs
		},
		ValidateName:             resourcedef.ValidatePathSegmentName,
		AllowCreateOnUpdate:      true,
		AllowUnconditionalUpdate: true,
	}
}

func roles() resourcedef.Kind {
	return resourcedef.Kind{
		Group: rbacv1.GroupName, Version: "v1", Resource: "roles", Singular: "role", Kind: "Role",
		Types: resourcedef.Types{
			New:        func() runtime.Object { return &rbacv1.Role{} },
			NewList:    func() runtime.Object { return &rbacv1.RoleList{} },
			Namespaced: true, NoGenerate: true,
		},
		Rules: rules(func(o runtime.Object) field.ErrorList { return validateRules(o.(*rbacv1.Role).Rules, true) },
			nil),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.CreatedAtColumn()},
			Row: func(o runtime.Object, _ resourcedef.RowOptions) []any {
				r := o.(*rbacv1.Role)
				return []any{r.Name, printers.TimestampCell(r.CreationTimestamp)}
			},
		},
	}
}

func clusterRoles() resourcedef.Kind {
	return resourcedef.Kind{
		Group: rbacv1.GroupName, Version: "v1", Resource: "clusterroles", Singular: "clusterrole", Kind: "ClusterRole",
		Types: resourcedef.Types{
			New:        func() runtime.Object { return &rbacv1.ClusterRole{} },
			NewList:    func() runtime.Object { return &rbacv1.ClusterRoleList{} },
			NoGenerate: true,
		},
		Rules: rules(func(o runtime.Object) field.ErrorList { return validateClusterRole(o.(*rbacv1.ClusterRole)) },
			nil),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.CreatedAtColumn()},
			Row: func(o runtime.Object, _ resourcedef.RowOptions) []any {
				r := o.(*rbacv1.ClusterRole)
				return []any{r.Name, printers.TimestampCell(r.CreationTimestamp)}
			},
		},
	}
}

func roleBindings() resourcedef.Kind {
	return resourcedef.Kind{
		Group: rbacv1.GroupName, Version: "v1", Resource: "rolebindings", Singular: "rolebinding", Kind: "RoleBinding",
		Types: resourcedef.Types{
			New:        func() runtime.Object { return &rbacv1.RoleBinding{} },
			NewList:    func() runtime.Object { return &rbacv1.RoleBindingList{} },
			Namespaced: true, NoGenerate: true,
		},
		Rules: bindingRules(rules(
			func(o runtime.Object) field.ErrorList {
				b := o.(*rbacv1.RoleBinding)
				return validateBinding(b.RoleRef, b.Subjects, true)
			},
			func(o, old runtime.Object) field.ErrorList {
				return sameRef(o.(*rbacv1.RoleBinding).RoleRef, old.(*rbacv1.RoleBinding).RoleRef)
			},
		), func(o runtime.Object) (*rbacv1.RoleRef, []rbacv1.Subject) {
			b := o.(*rbacv1.RoleBinding)
			return &b.RoleRef, b.Subjects
		}),
		Table: bindingTable("roleBinding", rbacv1beta1.RoleBinding{}.SwaggerDoc()["roleRef"],
			func(o runtime.Object) (metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject) {
				b := o.(*rbacv1.RoleBinding)
				return b.ObjectMeta, b.RoleRef, b.Subjects
			}),
	}
}

func clusterRoleBindings() resourcedef.Kind {
	return resourcedef.Kind{
		Group: rbacv1.GroupName, Version: "v1", Resource: "clusterrolebindings", Singular: "clusterrolebinding",
		Kind: "ClusterRoleBinding",
		Types: resourcedef.Types{
			New:        func() runtime.Object { return &rbacv1.ClusterRoleBinding{} },
			NewList:    func() runtime.Object { return &rbacv1.ClusterRoleBindingList{} },
			NoGenerate: true,
		},
		Rules: bindingRules(rules(
			func(o runtime.Object) field.ErrorList {
				b := o.(*rbacv1.ClusterRoleBinding)
				return validateBinding(b.RoleRef, b.Subjects, false)
			},
			func(o, old runtime.Object) field.ErrorList {
				return sameRef(o.(*rbacv1.ClusterRoleBinding).RoleRef, old.(*rbacv1.ClusterRoleBinding).RoleRef)
			},
		), func(o runtime.Object) (*rbacv1.RoleRef, []rbacv1.Subject) {
			b := o.(*rbacv1.ClusterRoleBinding)
			return &b.RoleRef, b.Subjects
		}),
		Table: bindingTable("clusterRoleBinding", rbacv1beta1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"],
			func(o runtime.Object) (metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject) {
				b := o.(*rbacv1.ClusterRoleBinding)
				return b.ObjectMeta, b.RoleRef, b.Subjects
			}),
	}
}

// bindingRules adds the defaults of bindings: the group of roles, users and groups is RBAC's.
func bindingRules(r resourcedef.Rules,
	parts func(runtime.Object) (*rbacv1.RoleRef, []rbacv1.Subject)) resourcedef.Rules {
	r.Default = func(o runtime.Object) {
		ref, subjects := parts(o)
		if ref.APIGroup == "" {
			ref.APIGroup = rbacv1.GroupName
		}
		for i := range subjects {
			if s := &subjects[i]; s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
				s.APIGroup = rbacv1.GroupName
			}
		}
	}
	return r
}

func bindingTable(what, refDoc string,
	parts func(runtime.Object) (metav1.ObjectMeta, rbacv1.RoleRef, []rbacv1.Subject)) resourcedef.Table {
	defs := []metav1.TableColumnDefinition{printers.NameColumn(), printers.StringColumn("Role", refDoc),
		printers.AgeColumn()}
	defs = append(defs, printers.WideColumns(printers.StringColumn("Users", "Users in the "+what),
		printers.StringColumn("Groups", "Groups in the "+what),
		printers.StringColumn("ServiceAccounts", "ServiceAccounts in the "+what))...)
	return resourcedef.Table{
		Columns: defs,
		Row: func(o runtime.Object, opt resourcedef.RowOptions) []any {
			m, ref, subjects := parts(o)
			var users, groups, accounts []string
			for _, s := range subjects {
				switch s.Kind {
				case rbacv1.UserKind:
					users = append(users, s.Name)
				case rbacv1.GroupKind:
					groups = append(groups, s.Name)
				case rbacv1.ServiceAccountKind:
					accounts = append(accounts, s.Namespace+"/"+s.Name)
				}
			}
			return []any{
				m.Name, ref.Kind + "/" + ref.Name, printers.TimestampSince(m.CreationTimestamp, opt.Now),
				strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", "),
			}
		},
	}
}
