package requesttrace

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

// Tracer wraps the parts of one server's chain. The zero value is ready but for Authorizer.
type Tracer struct {
	// Authorizer says who may be told.
	Authorizer authorizer.UnconditionalAuthorizer
	// MutatingPolicies names the mutating policies in force for a resource; nil names none.
	MutatingPolicies func(schema.GroupVersionResource) []string

	active atomic.Int32 // requests that are being followed
}

type recorderKey struct{}

// recorderFrom returns who follows the request of a context, or nil.
func (d *Tracer) recorderFrom(ctx context.Context) *recorder {
	if d.active.Load() == 0 {
		return nil
	}
	t, _ := ctx.Value(recorderKey{}).(*recorder)
	return t
}

// WrapAuthenticator notes who was found to send a request.
func (d *Tracer) WrapAuthenticator(a authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		t := d.recorderFrom(req.Context())
		if t == nil {
			return a.AuthenticateRequest(req)
		}
		at := t.elapsed()
		res, ok, err := a.AuthenticateRequest(req)
		t.recordAuthentication(at, res, ok, err)
		return res, ok, err
	})
}

// WrapAuthorizer notes what was decided about a request.
func (d *Tracer) WrapAuthorizer(a authorizer.Authorizer) authorizer.Authorizer {
	return tracedAuthorizer{a, d}
}

type tracedAuthorizer struct {
	authorizer.Authorizer
	tracer *Tracer
}

// Authorize implements authorizer.Authorizer.
func (j tracedAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	t := j.tracer.recorderFrom(ctx)
	if t == nil {
		return j.Authorizer.Authorize(ctx, a)
	}
	at := t.elapsed()
	d, reason, err := j.Authorizer.Authorize(ctx, a)
	t.recordAuthorization(at, authorizerDecision{attributes: a, isRequest: isRequestItself(ctx, a),
		allowed: d == authorizer.DecisionAllow, reason: reason, err: err})
	return d, reason, err
}

// isRequestItself says that the question is whether the request itself is allowed, not something it
// entails.
func isRequestItself(ctx context.Context, a authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Verb == a.GetVerb() && info.Resource == a.GetResource() &&
		info.Subresource == a.GetSubresource() && info.Name == a.GetName()
}

// mayRead asks whether the user may be told.
func (d *Tracer) mayRead(ctx context.Context, a authorizer.Attributes) (bool, error) {
	decision, _, err := d.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUser(), Verb: journal.ExplainVerb, Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(),
		APIVersion: a.GetAPIVersion(),
		Resource:   a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}
