package rbac

import (
	"context"
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/apiserver/auth/rbac"
)

// errAggregate is upstream's text for who writes an aggregation rule without holding every right:
// the sum could become anything.
var errAggregate = errors.New("must have cluster-admin privileges to use the aggregationRule")

func isPrivileged(ctx context.Context) bool {
	userName, ok := request.UserFrom(ctx)
	return ok && slices.Contains(userName.GetGroups(), user.SystemPrivilegedGroup)
}

func aggregationAllowed(ctx context.Context, policy storedPolicy) bool {
	everything := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	return rbac.ConfirmNoEscalation(ctx, policy, "", everything) == nil
}
