package requesttrace

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gantry-project/gantry/internal/journal"
)

// finish completes the trace when the response begins, with its status code; nil when it was
// completed before. Steps added later are dropped.
func (t *recorder) finish(code int) *journal.RequestTrace {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.finished {
		return nil
	}
	s := &t.trace
	if a := t.attributes; a != nil {
		s.Verb, s.Resource, s.Subresource, s.Namespace, s.Name = a.GetVerb(), a.GetResource(), a.GetSubresource(),
			a.GetNamespace(), a.GetName()
		if g := a.GetAPIGroup(); g != "" {
			s.Resource += "." + g
		}
	}
	if m, ok := t.object["metadata"].(map[string]any); ok && s.Name == "" {
		s.Name, _ = m["name"].(string)
	}
	switch refused := slices.ContainsFunc(s.Steps, func(p journal.Step) bool { return p.Refused }); {
	case code >= http.StatusBadRequest && !refused:
		t.addStep(t.lastEnd, journal.Step{Name: t.failedStep(code), Refused: true})
	case code < http.StatusBadRequest && s.Revision == 0 && t.body.dryRun:
		s.DryRun = true
		step := journal.Step{Name: journal.StepStorage, Message: "dry run: nothing was written"}
		if t.oldObject != nil && t.object != nil {
			step.Changes = journal.Changes(t.oldObject, t.object)
		}
		t.addStep(t.lastEnd, step)
	}
	s.Code, s.Took, t.finished = code, journal.Took(t.elapsed()), true
	return s
}

// failedStep returns the name of the step that must have failed when a request got an error and no
// recorded step reports one.
func (t *recorder) failedStep(code int) string {
	switch {
	case t.attributes == nil && slices.ContainsFunc(t.trace.Steps,
		func(p journal.Step) bool { return p.Name == journal.StepImpersonation }):
		return journal.StepImpersonation
	case t.attributes == nil:
		return journal.StepAuthentication
	case code == http.StatusConflict || code == http.StatusNotFound || code == http.StatusInsufficientStorage:
		return journal.StepStorage
	case !t.mutationStarted && !t.validationStarted:
		return journal.StepReading
	}
	return journal.StepValidation
}

// withheldText says which permission a user lacks to read the trace.
func withheldText(a authorizer.Attributes) string {
	what := a.GetResource()
	if s := a.GetSubresource(); s != "" {
		what += "/" + s
	}
	if g := a.GetAPIGroup(); g != "" {
		what += "." + g
	}
	where := "in the cluster"
	if ns := a.GetNamespace(); ns != "" {
		where = "in namespace " + ns
	}
	return fmt.Sprintf("user %s may not %s %s %s", a.GetUser().GetName(), journal.ExplainVerb, what, where)
}

// mediaType returns the Content-Type without parameters; "" if it is malformed.
func mediaType(req *http.Request) string {
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// credentialKind describes the request's credential. It must be called before authentication, which
// removes the token from the header.
func credentialKind(req *http.Request) string {
	switch {
	case strings.HasPrefix(req.Header.Get("Authorization"), "Bearer "):
		return "the bearer token"
	case req.TLS != nil && len(req.TLS.PeerCertificates) > 0:
		return fmt.Sprintf("the client certificate of %q", req.TLS.PeerCertificates[0].Subject.CommonName)
	case req.TLS == nil:
		return "the client in this process"
	}
	return "no credential"
}
