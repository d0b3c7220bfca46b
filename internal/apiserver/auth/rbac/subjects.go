package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// appliesTo returns the first subject that means the user, nil when none does. A ServiceAccount
// without namespace is of the binding's.
func appliesTo(userInfo user.Info, subjects []rbacv1.Subject, namespace string) *rbacv1.Subject {
	for i := range subjects {
		s := &subjects[i]
		yes := false
		switch s.Kind {
		case rbacv1.UserKind:
			yes = userInfo.GetName() == s.Name
		case rbacv1.GroupKind:
			yes = slices.Contains(userInfo.GetGroups(), s.Name)
		case rbacv1.ServiceAccountKind:
			ns := namespace
			if s.Namespace != "" {
				ns = s.Namespace
			}
			yes = ns != "" && serviceaccount.MatchesUsername(ns, s.Name, userInfo.GetName())
		}
		if yes {
			return s
		}
	}
	return nil
}

func describeSubject(s *rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind && s.Namespace != "" {
		return fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+s.Namespace)
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
}
