package auth

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"

	own "github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth/node"
	"github.com/gantry-project/gantry/internal/apiserver/auth/webhook"
)

// authorize joins the authorizers; the first that allows or denies has decided.
func (s *stack) authorize(out *own.Access) error {
	health, err := path.NewAuthorizer(healthPaths())
	if err != nil {
		return err
	}
	roles := s.rbac()
	nodes := &node.Authorizer{Index: s.feed.Index, Synced: s.feed.Synced, Rules: s.roles.Rules("system:node"), Patience: authorizerPatience}
	chain, err := webhook.NewChain(s.options.Chain, webhook.Inside{
		"Node": mute{nodes}, "RBAC": roles, "AlwaysAllow": authorizerfactory.NewAlwaysAllowAuthorizer(), "AlwaysDeny": authorizerfactory.NewAlwaysDenyAuthorizer(),
	})
	if err != nil {
		return err
	}
	s.runners = append(s.runners, chain.Run)
	joined, err := union.New(
		union.NamedAuthorizer{AuthorizerName: "masters.gantry", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "health.gantry", Authorizer: health},
		union.NamedAuthorizer{AuthorizerName: configured, Authorizer: chain},
		union.NamedAuthorizer{AuthorizerName: "journal", Authorizer: storyReaders{chain}},
	)
	out.Authorizer, out.RuleResolver = unnamed{joined}, chain
	return err
}

// configured is the name of the chain of authorizers that flags or a file name; each of those has a name of its own.
const configured = "chain"

// unnamed leaves out of a refusal that the chain said it.
type unnamed struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (u unnamed) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := u.Authorizer.Authorize(ctx, a)
	return decision, strings.TrimPrefix(reason, configured+": "), err
}

// mute is an authorizer that lists no rules.
type mute struct{ authorizer.Authorizer }

// RulesFor implements authorizer.RuleResolver: what a node may do depends on its Pods.
func (mute) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, false, nil
}

var _ authorizer.Authorizer = (*node.Authorizer)(nil)
