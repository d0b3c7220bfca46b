package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorizer is the authorizer and rule resolver over a PolicyReader.
type Authorizer struct{ Rules PolicyReader }

// Authorize implements authorizer.Authorizer: allow or no opinion.
func (a Authorizer) Authorize(_ context.Context, req authorizer.Attributes) (authorizer.Decision, string, error) {
	var errs []error
	var by fmt.Stringer
	visitRulesFor(a.Rules, req.GetUser(), req.GetNamespace(), func(source fmt.Stringer, rule *rbacv1.PolicyRule,
		err error) bool {
		if rule != nil && RuleAllows(rule, req) {
			by = source
			return false
		}
		if err != nil {
			errs = append(errs, err)
		}
		return true
	})
	if by != nil {
		return authorizer.DecisionAllow, "RBAC: allowed by " + by.String(), nil
	}
	reason := ""
	if len(errs) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: RBAC knows no conditions.
func (a Authorizer) ConditionsAwareAuthorize(ctx context.Context,
	req authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, req))
}

// EvaluateConditions implements authorizer.Authorizer: there are none to evaluate.
func (Authorizer) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision,
	authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor implements authorizer.RuleResolver.
func (a Authorizer) RulesFor(_ context.Context, userInfo user.Info,
	namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	rules, err := RulesForUser(a.Rules, userInfo, namespace)
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	for _, r := range rules {
		if len(r.Resources) > 0 {
			resources = append(resources, &authorizer.DefaultResourceRuleInfo{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			})
		}
		if len(r.NonResourceURLs) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs,
				NonResourceURLs: r.NonResourceURLs})
		}
	}
	return resources, paths, false, err
}
