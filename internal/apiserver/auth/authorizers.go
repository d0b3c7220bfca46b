package auth

import (
	"context"
	"slices"
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

// authorize sets out.Authorizer: the union of system:masters, health paths, the configured chain
// and the journal's readers; the first that allows or denies decides.
func (s *authBuilder) authorize(out *own.Access) error {
	health, err := path.NewAuthorizer(healthPaths())
	if err != nil {
		return err
	}
	roles := s.rbac()
	nodes := &node.Authorizer{Graph: s.nodeGraph.Graph, Synced: s.nodeGraph.Synced, Rules: s.roles.Rules("system:node"),
		MaxWait: nodeAuthorizerMaxWait, VolumeHealth: s.deps.Features.CSIVolumeHealth}
	chain, err := webhook.NewAuthorizer(s.options.Authorization, webhook.BuiltInAuthorizers{
		"Node": noRuleResolver{nodes}, "RBAC": roles, "AlwaysAllow": authorizerfactory.NewAlwaysAllowAuthorizer(),
		"AlwaysDeny": authorizerfactory.NewAlwaysDenyAuthorizer(),
	})
	if err != nil {
		return err
	}
	s.runners = append(s.runners, chain.Run)
	joined, err := union.New(
		union.NamedAuthorizer{AuthorizerName: "masters.gantry",
			Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "health.gantry", Authorizer: readers{health}},
		union.NamedAuthorizer{AuthorizerName: chainName, Authorizer: chain},
		union.NamedAuthorizer{AuthorizerName: "journal", Authorizer: journalReaders{chain}},
	)
	out.Authorizer, out.RuleResolver = reasonTrimmer{joined}, chain
	return err
}

// readers asks an authorizer about reads of those who were authenticated or are known to be nobody,
// as upstream's role for public information has it. It has no opinion about others.
type readers struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (r readers) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	public := func(group string) bool { return group == user.AllAuthenticated || group == user.AllUnauthenticated }
	if a.GetVerb() != "get" || a.GetUser() == nil || !slices.ContainsFunc(a.GetUser().GetGroups(), public) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return r.Authorizer.Authorize(ctx, a)
}

// chainName is the name of the configured chain in reasons; each authorizer of the chain has a name
// of its own.
const chainName = "chain"

// reasonTrimmer removes chainName from the reason of a decision.
type reasonTrimmer struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (u reasonTrimmer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := u.Authorizer.Authorize(ctx, a)
	return decision, strings.TrimPrefix(reason, chainName+": "), err
}

// noRuleResolver adds an empty list of rules to an authorizer.
type noRuleResolver struct{ authorizer.Authorizer }

// RulesFor implements authorizer.RuleResolver. What a node may do depends on its Pods and is no
// list.
func (noRuleResolver) RulesFor(context.Context, user.Info,
	string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return nil, nil, false, nil
}

var _ authorizer.Authorizer = (*node.Authorizer)(nil)
