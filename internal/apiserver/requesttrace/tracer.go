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

// Tracer wraps the parts of one server's handler chain and records requests that ask for it. The
// zero value is ready but for Authorizer; safe for concurrent use once its fields are set.
type Tracer struct {
	// Authorizer decides who may read traces; it gets the verb journal.ExplainVerb.
	Authorizer authorizer.UnconditionalAuthorizer
	// MutatingPolicies returns the names of the MutatingAdmissionPolicies for a resource; may be
	// nil.
	MutatingPolicies func(schema.GroupVersionResource) []string

	active atomic.Int32 // requests that are being recorded
}

// recorderKey is the context key of a request's recorder.
type recorderKey struct{}

// recorderFrom returns the recorder of a request's context; nil if the request is not recorded.
func (d *Tracer) recorderFrom(ctx context.Context) *recorder {
	if d.active.Load() == 0 {
		return nil
	}
	t, _ := ctx.Value(recorderKey{}).(*recorder)
	return t
}

// WrapAuthenticator returns a with its results recorded.
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

// WrapAuthorizer returns a with its decisions recorded.
func (d *Tracer) WrapAuthorizer(a authorizer.Authorizer) authorizer.Authorizer {
	return tracedAuthorizer{a, d}
}

// tracedAuthorizer records decisions.
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

// isRequestItself reports whether an authorizer call is about the request itself, not about
// something it entails (impersonation, or what an admission plugin checks).
func isRequestItself(ctx context.Context, a authorizer.Attributes) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Verb == a.GetVerb() && info.Resource == a.GetResource() &&
		info.Subresource == a.GetSubresource() && info.Name == a.GetName()
}

// mayRead reports whether the user of a write may read its trace.
func (d *Tracer) mayRead(ctx context.Context, a authorizer.Attributes) (bool, error) {
	decision, _, err := d.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUser(), Verb: journal.ExplainVerb, Namespace: a.GetNamespace(), APIGroup: a.GetAPIGroup(),
		APIVersion: a.GetAPIVersion(),
		Resource:   a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: true,
	})
	return decision == authorizer.DecisionAllow, err
}
