package requesttrace

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gantry-project/gantry/internal/journal"
)

// Bounds of a trace: it is sent in a header.
const (
	maxSteps      = 200
	maxChanges    = 60  // of one step
	maxValueBytes = 400 // bytes of a string in a change
)

// recorder collects the steps of one request. Handlers run in several goroutines one after the
// other, but a request that timed out may still be running while its response is written: mu guards
// what follows it.
type recorder struct {
	started time.Time
	method  string
	body    *requestBody

	mu                sync.Mutex
	finished          bool // the response has begun
	trace             journal.RequestTrace
	attributes        authorizer.Attributes // of the write itself; nil before it was authorized
	lastEnd           time.Duration         // end of the last step
	oldObject         map[string]any        // the object as stored; nil for a create
	object            map[string]any        // the object after the last recorded step
	mutationStarted   bool                  // the first mutating plugin was called
	validationStarted bool                  // the first validating plugin, or storage, was called
	isSecret          bool                  // values of data are masked
}

// elapsed returns the time since the request was received.
func (t *recorder) elapsed() time.Duration { return time.Since(t.started) }

// addStep appends a step that began at the given time after the start and ends now. t.mu is held.
func (t *recorder) addStep(at time.Duration, s journal.Step) {
	end := t.elapsed()
	s.At, s.Took, t.lastEnd = journal.Took(at), journal.Took(end-at), end
	if t.finished || len(t.trace.Steps) >= maxSteps {
		return
	}
	s.Changes, s.Left = t.redactChanges(s.Changes)
	t.trace.Steps = append(t.trace.Steps, s)
}

// redactChanges masks the values of Secrets, shortens long ones and returns at most maxChanges
// changes, with the number of those left out.
func (t *recorder) redactChanges(changes []journal.Change) ([]journal.Change, int) {
	left := max(0, len(changes)-maxChanges)
	changes = changes[:len(changes)-left]
	for i := range changes {
		c := &changes[i]
		if t.isSecret && isSecretPath(c.Path) {
			c.Was, c.Now = maskValue(c.Was), maskValue(c.Now)
			continue
		}
		c.Was, c.Now = truncateValue(c.Was), truncateValue(c.Now)
	}
	return changes, left
}

// isSecretPath reports whether a path of a Secret holds data, or may hold a copy of it (kubectl's
// last-applied annotation).
func isSecretPath(path string) bool {
	return path == "data" || path == "stringData" || strings.HasPrefix(path, "data.") || strings.HasPrefix(path,
		"data[") ||
		strings.HasPrefix(path, "stringData.") || strings.HasPrefix(path, "stringData[") || strings.HasPrefix(path,
		"metadata.annotations") || path == "metadata"
}

// maskValue hides a value, but not whether there is one.
func maskValue(v any) any {
	if v == nil {
		return nil
	}
	return "***"
}

// truncateValue replaces long strings, maps and lists by a summary.
func truncateValue(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > maxValueBytes {
			return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(v[:maxValueBytes], ""), len(v))
		}
	case map[string]any:
		if raw, err := json.Marshal(v); err == nil && len(raw) > 8*maxValueBytes {
			return fmt.Sprintf("{… %d fields, %d bytes}", len(v), len(raw))
		}
	case []any:
		if raw, err := json.Marshal(v); err == nil && len(raw) > 8*maxValueBytes {
			return fmt.Sprintf("[… %d elements, %d bytes]", len(v), len(raw))
		}
	}
	return v
}

// recordAuthentication adds the step of the authenticator, which began at the given time.
func (t *recorder) recordAuthentication(at time.Duration, res *authenticator.Response, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepAuthentication, Refused: !ok, Error: errorText(err)}
	if ok && res != nil && res.User != nil {
		t.trace.User, t.trace.Groups = res.User.GetName(), res.User.GetGroups()
		s.Message = fmt.Sprintf("%s is %s, in groups %s", t.body.credential, t.trace.User,
			strings.Join(t.trace.Groups, ", "))
	} else if err == nil {
		s.Message = t.body.credential + " names nobody"
	}
	t.addStep(at, s)
}

// authorizerDecision is one call of the authorizer with its result.
type authorizerDecision struct {
	attributes authorizer.Attributes
	isRequest  bool // the call is about the request itself, not about something it entails
	allowed    bool
	reason     string
	err        error
}

// recordAuthorization adds the step of one call of the authorizer. Calls about impersonation and
// about what the request entails are not refusals of the request.
func (t *recorder) recordAuthorization(at time.Duration, r authorizerDecision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepAuthorization, Refused: !r.allowed, Error: errorText(r.err), Message: r.reason}
	switch {
	case strings.HasPrefix(r.attributes.GetVerb(), "impersonate"):
		s.Name = journal.StepImpersonation
		s.Message = fmt.Sprintf("%s %s %s: %s", r.attributes.GetVerb(), r.attributes.GetResource(),
			r.attributes.GetName(), decisionText(r))
		s.Refused = false // another call about the same impersonation may allow it
	case !r.isRequest:
		s.Message = fmt.Sprintf("also asked: %s %s %s: %s", r.attributes.GetVerb(), r.attributes.GetResource(),
			r.attributes.GetName(), decisionText(r))
		s.Refused = false // the caller decides what follows
	default:
		t.attributes = r.attributes
		t.isSecret = r.attributes.GetResource() == "secrets" && r.attributes.GetAPIGroup() == ""
		if u := r.attributes.GetUser(); u != nil && u.GetName() != t.trace.User {
			t.trace.User, t.trace.Groups = u.GetName(), u.GetGroups()
		}
		if s.Message == "" && r.allowed {
			s.Message = "allowed"
		}
	}
	t.addStep(at, s)
}

// decisionText is the decision for a step's message.
func decisionText(r authorizerDecision) string {
	writer := "no"
	if r.allowed {
		writer = "yes"
	}
	if r.reason == "" {
		return writer
	}
	return writer + ", " + r.reason
}

// errorText returns err's text; "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// toUnstructured returns the object as JSON decodes it, in the version of the request; nil if it
// cannot be encoded.
func toUnstructured(obj runtime.Object, a admission.Attributes, o admission.ObjectInterfaces) map[string]any {
	if obj == nil {
		return nil
	}
	if o != nil {
		if c := o.GetObjectConvertor(); c != nil {
			if out, err := c.ConvertToVersion(obj.DeepCopyObject(), a.GetKind().GroupVersion()); err == nil {
				obj = out
			}
		}
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil
	}
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}
