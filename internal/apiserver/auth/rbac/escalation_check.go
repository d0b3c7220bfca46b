package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// ConfirmNoEscalation tells whether the request's user may hand out rules in a namespace ("" for
// everywhere): only who holds them, or system:masters. The error is upstream's text.
func ConfirmNoEscalation(ctx context.Context, p PolicyReader, namespace string, rules []rbacv1.PolicyRule) error {
	userInfo, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	if slices.Contains(userInfo.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	held, lookupErr := RulesForUser(p, userInfo, namespace)
	covered, missing := validation.Covers(held, rules)
	if covered {
		return nil
	}
	lines := []string{}
	for _, r := range CompactRules(missing) {
		lines = append(lines, CompactString(r))
	}
	msg := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		userInfo.GetName(), userInfo.GetGroups(), strings.Join(lines, "\n"))
	if lookupErr != nil {
		msg += fmt.Sprintf("; resolution errors: %v", lookupErrors(lookupErr))
	}
	return errors.New(msg)
}

func lookupErrors(err error) []error {
	var many interface{ Errors() []error }
	if errors.As(err, &many) {
		return many.Errors()
	}
	return []error{err}
}

// HasVerb tells whether the request's user was given a verb (escalate, bind) on a role or on all
// roles.
func HasVerb(ctx context.Context, a authorizer.Authorizer, verb string, on authorizer.AttributesRecord) bool {
	userInfo, ok := request.UserFrom(ctx)
	if !ok {
		return false
	}
	on.User, on.Verb, on.ResourceRequest = userInfo, verb, true
	on.APIGroup, on.APIVersion = rbacv1.GroupName, "v1"
	decision, _, err := a.Authorize(ctx, on)
	return err == nil && decision == authorizer.DecisionAllow
}
