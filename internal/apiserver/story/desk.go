package story

import (
	"context"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/journal"
)

// Desk wraps the parts of one server's chain. The zero value is ready but for Authorizer.
type Desk struct {
	// Authorizer says who may be told.
	Authorizer authorizer.UnconditionalAuthorizer
	// Policies names the mutating policies in force for a resource; nil names none.
	Policies func(schema.GroupVersionResource) []string

	open atomic.Int32 // requests that are being followed
}

type tellerKey struct{}

// follow returns who follows the request of a context, or nil.
func (d *Desk) follow(ctx context.Context) *teller {
	if d.open.Load() == 0 {
		return nil
	}
	t, _ := ctx.Value(tellerKey{}).(*teller)
	return t
}

// Authenticator notes who was found to send a request.
func (d *Desk) Authenticator(a authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		t := d.follow(req.Context())
		if t == nil {
			return a.AuthenticateRequest(req)
		}
		at := t.now()
		res, ok, err := a.AuthenticateRequest(req)
		t.authenticated(at, res, ok, err)
		return res, ok, err
	})
}

// Authorized notes what was decided about a request.
func (d *Desk) Authorized(a authorizer.Authorizer) authorizer.Authorizer { return judge{a, d} }

type judge struct {
	authorizer.Authorizer
	desk *Desk
}

// Authorize implements authorizer.Authorizer.
func (j judge) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	t := j.desk.follow(ctx)
	if t == nil {
		return j.Authorizer.Authorize(ctx, a)
	}
	at := t.now()
	d, reason, err := j.Authorizer.Authorize(ctx, a)
	t.authorized(at, ruling{about: a, main: isMain(ctx, a), allowed: d == authorizer.DecisionAllow, reason: reason, err: err})
	return d, reason, err
}

// isMain says that the question is whether the request itself is allowed, not something it entails.
func isMain(ctx context.Context, a authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Verb == a.GetVerb() && info.Resource == a.GetResource() && info.Subresource == a.GetSubresource() && info.Name == a.GetName()
}

// mayKnow asks whether the user may be told.
func (d *Desk) mayKnow(ctx context.Context, a authorizer.Attributes) (bool, error) {
	decision, _, err := d.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUser(), Verb: journal.StoryVerb, Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}
