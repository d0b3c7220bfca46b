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

// errAggregate is upstream's text for who writes an aggregation rule without holding every right: the sum could become anything.
var errAggregate = errors.New("must have cluster-admin privileges to use the aggregationRule")

func isMaster(ctx context.Context) bool {
	who, ok := request.UserFrom(ctx)
	return ok && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}

func mayAggregate(ctx context.Context, policy stored) bool {
	everything := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	return rbac.MayGrant(ctx, policy, "", everything) == nil
}
