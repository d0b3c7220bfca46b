package apiserver

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

// makeAccess calls Config.Access and sets authentication and authorization. In-process clients are
// authenticated by their context; the server's own user may do everything.
func (b *builder) makeAccess() error {
	a := &Access{}
	if b.config.Access != nil {
		var err error
		a, err = b.config.Access(AccessDeps{
			Loopback: b.loopback, Client: b.client, Informers: b.informers, Files: b.config.Files,
			Features: b.config.Features,
			Lookup:   b.lookupStorage,
		})
		if err != nil {
			return fmt.Errorf("access rules: %w", err)
		}
	}
	if a.Authenticator == nil {
		a.Authenticator = contextAuthenticator{}
	} else {
		a.Authenticator = union.New(contextAuthenticator{}, a.Authenticator)
	}
	privileged := authorizerfactory.NewPrivilegedGroups("system:masters")
	if a.Authorizer == nil {
		a.Authorizer, a.RuleResolver = privileged, emptyRuleResolver{}
	} else {
		a.Authorizer = privilegedGroups{a.Authorizer, privileged}
	}
	if a.RuleResolver == nil {
		a.RuleResolver = emptyRuleResolver{}
	}
	b.access = a
	return nil
}

// emptyRuleResolver lists no rules.
type emptyRuleResolver struct{}

// RulesFor implements authorizer.RuleResolver.
func (emptyRuleResolver) RulesFor(context.Context, user.Info,
	string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, true, nil
}

// privilegedGroups allows system:masters everything and passes other requests on to the authorizer,
// with its reasons unchanged.
type privilegedGroups struct {
	authorizer.Authorizer
	masters authorizer.Authorizer
}

// Authorize implements authorizer.Authorizer.
func (m privilegedGroups) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if d, reason, err := m.masters.Authorize(ctx, a); d == authorizer.DecisionAllow {
		return d, reason, err
	}
	return m.Authorizer.Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (m privilegedGroups) ConditionsAwareAuthorize(ctx context.Context,
	a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if d, _, _ := m.masters.Authorize(ctx, a); d == authorizer.DecisionAllow {
		return m.masters.ConditionsAwareAuthorize(ctx, a)
	}
	return m.Authorizer.ConditionsAwareAuthorize(ctx, a)
}
