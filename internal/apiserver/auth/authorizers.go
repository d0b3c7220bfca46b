package auth

import (
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"

	own "github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth/node"
)

// authorize joins the authorizers; the first that allows or denies has decided.
func (s *stack) authorize(out *own.Access) error {
	health, err := path.NewAuthorizer(healthPaths())
	if err != nil {
		return err
	}
	roles := s.rbac()
	nodes := &node.Authorizer{Index: s.feed.Index, Synced: s.feed.Synced, Rules: s.roles.Rules("system:node"), Patience: authorizerPatience}
	out.Authorizer, err = union.New(
		union.NamedAuthorizer{AuthorizerName: "masters.gantry", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "health.gantry", Authorizer: health},
		union.NamedAuthorizer{AuthorizerName: "node", Authorizer: nodes},
		union.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: roles},
		union.NamedAuthorizer{AuthorizerName: "journal", Authorizer: storyReaders{roles}},
	)
	out.RuleResolver = union.NewRuleResolvers(roles)
	return err
}

var _ authorizer.Authorizer = (*node.Authorizer)(nil)
