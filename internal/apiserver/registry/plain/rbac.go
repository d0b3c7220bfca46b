package plain

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// RBAC are the rows of rbac.authorization.k8s.io/v1.
func RBAC() []kind.Kind {
	return []kind.Kind{
		roleKind("roles", "Role", types[rbacv1.Role, rbacv1.RoleList](), true),
		roleKind("clusterroles", "ClusterRole", types[rbacv1.ClusterRole, rbacv1.ClusterRoleList](), false),
		roleBindings(), clusterRoleBindings(),
	}
}

func rbacKind(resource, kindName string, t kind.Types, namespaced bool) kind.Kind {
	t.NoGenerate, t.Namespaced = true, namespaced
	return kind.Kind{
		Group: rbacv1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName, Types: t,
		Rules: kind.Rules{
			AllowCreateOnUpdate: true, AllowUnconditionalUpdate: true,
			ValidateName: func(name string, prefix bool) []string { return path.ValidatePathSegmentName(name, prefix) },
		},
	}
}

func roleKind(resource, kindName string, t kind.Types, namespaced bool) kind.Kind {
	k := rbacKind(resource, kindName, t, namespaced)
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), {Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		},
		Row: func(o runtime.Object, _ kind.RowOptions) []any {
			m := o.(metav1.Object)
			return []any{m.GetName(), m.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		},
	}
	return k
}

func subjectDefaults(subjects []rbacv1.Subject, ref *rbacv1.RoleRef) {
	orText(&ref.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if s := &subjects[i]; s.APIGroup == "" && (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) {
			s.APIGroup = rbacv1.GroupName
		}
	}
}

// subjectCells are users, groups and service accounts, joined.
func subjectCells(subjects []rbacv1.Subject) (cells [3]string) {
	var by [3][]string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			by[0] = append(by[0], s.Name)
		case rbacv1.GroupKind:
			by[1] = append(by[1], s.Name)
		case rbacv1.ServiceAccountKind:
			by[2] = append(by[2], s.Namespace+"/"+s.Name)
		}
	}
	for i := range by {
		cells[i] = strings.Join(by[i], ", ")
	}
	return cells
}

func bindingColumns(ref, where string) []metav1.TableColumnDefinition {
	return append([]metav1.TableColumnDefinition{column.Name(), column.Def("Role", ref), column.Age()}, column.Wide(
		column.Def("Users", "Users in the "+where), column.Def("Groups", "Groups in the "+where), column.Def("ServiceAccounts", "ServiceAccounts in the "+where),
	)...)
}

func roleBindings() kind.Kind {
	k := rbacKind("rolebindings", "RoleBinding", types[rbacv1.RoleBinding, rbacv1.RoleBindingList](), true)
	k.Rules.Default = func(o runtime.Object) { b := o.(*rbacv1.RoleBinding); subjectDefaults(b.Subjects, &b.RoleRef) }
	k.Table = kind.Table{
		Columns: bindingColumns(rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"], "roleBinding"),
		Row: row(func(b *rbacv1.RoleBinding, o kind.RowOptions) []any {
			c := subjectCells(b.Subjects)
			return []any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, column.Since(b.CreationTimestamp, o.Now), c[0], c[1], c[2]}
		}),
	}
	return k
}

func clusterRoleBindings() kind.Kind {
	k := rbacKind("clusterrolebindings", "ClusterRoleBinding", types[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](), false)
	k.Rules.Default = func(o runtime.Object) { b := o.(*rbacv1.ClusterRoleBinding); subjectDefaults(b.Subjects, &b.RoleRef) }
	k.Table = kind.Table{
		Columns: bindingColumns(rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"], "clusterRoleBinding"),
		Row: row(func(b *rbacv1.ClusterRoleBinding, o kind.RowOptions) []any {
			c := subjectCells(b.Subjects)
			return []any{b.Name, b.RoleRef.Kind + "/" + b.RoleRef.Name, column.Since(b.CreationTimestamp, o.Now), c[0], c[1], c[2]}
		}),
	}
	return k
}
