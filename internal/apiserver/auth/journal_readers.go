package auth

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// journalGroup and journalResource are the API resource of the journal.
const (
	journalGroup    = "journal.gantry.dev"
	journalResource = "podjournals"
)

// journalReaders authorizes get and list of a Pod's journal for users who may get and list the Pods
// themselves, so that no role has to name the journal.
type journalReaders struct{ pods authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (r journalReaders) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() || a.GetAPIGroup() != journalGroup || a.GetResource() != journalResource ||
		a.GetSubresource() != "" || !a.IsReadOnly() {
		return authorizer.DecisionNoOpinion, "", nil
	}
	d, reason, err := r.pods.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUser(), Verb: a.GetVerb(), Namespace: a.GetNamespace(), Name: a.GetName(), APIVersion: "v1",
		Resource: "pods", ResourceRequest: true,
	})
	if d != authorizer.DecisionAllow {
		return authorizer.DecisionNoOpinion, "", err
	}
	return d, reason, err
}

// ConditionsAwareAuthorize implements authorizer.Authorizer without conditions.
func (r journalReaders) ConditionsAwareAuthorize(ctx context.Context,
	a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer; it always fails, as there are no conditions.
func (journalReaders) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision,
	authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}
