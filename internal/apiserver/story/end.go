package story

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gantry-project/gantry/internal/journal"
)

// end closes the story when the answer begins; nil when it was closed before.
func (t *teller) end(code int) *journal.Story {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told {
		return nil
	}
	s := &t.story
	if a := t.about; a != nil {
		s.Verb, s.Resource, s.Subresource, s.Namespace, s.Name = a.GetVerb(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName()
		if g := a.GetAPIGroup(); g != "" {
			s.Resource += "." + g
		}
	}
	if m, ok := t.object["metadata"].(map[string]any); ok && s.Name == "" {
		s.Name, _ = m["name"].(string)
	}
	switch refused := slices.ContainsFunc(s.Steps, func(p journal.Step) bool { return p.Refused }); {
	case code >= http.StatusBadRequest && !refused:
		t.add(t.last, journal.Step{Name: t.where(code), Refused: true})
	case code < http.StatusBadRequest && s.Revision == 0 && t.sent.dry:
		s.DryRun = true
		step := journal.Step{Name: journal.StepStorage, Says: "dry run: nothing was written"}
		if t.first != nil && t.object != nil {
			step.Changes = journal.Changes(t.first, t.object)
		}
		t.add(t.last, step)
	}
	s.Code, s.Took, t.told = code, journal.Took(t.now()), true
	return s
}

// where is the step at which a write ended that no step refused by itself.
func (t *teller) where(code int) string {
	switch {
	case t.about == nil && slices.ContainsFunc(t.story.Steps, func(p journal.Step) bool { return p.Name == journal.StepImpersonation }):
		return journal.StepImpersonation
	case t.about == nil:
		return journal.StepAuthentication
	case code == http.StatusConflict || code == http.StatusNotFound || code == http.StatusInsufficientStorage:
		return journal.StepStorage
	case !t.admitted && !t.judged:
		return journal.StepReading
	}
	return journal.StepValidation
}

func withheld(a authorizer.Attributes) string {
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
	return fmt.Sprintf("user %s may not %s %s %s", a.GetUser().GetName(), journal.StoryVerb, what, where)
}

func mediaType(req *http.Request) string {
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// credential names what a client shows; authentication takes the token away, so it is looked at before.
func credential(req *http.Request) string {
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
