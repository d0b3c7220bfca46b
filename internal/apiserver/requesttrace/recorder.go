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

// Bounds of a story: it travels in a header.
const (
	maxSteps      = 200
	maxChanges    = 60  // of one step
	maxValueBytes = 400 // bytes of a string in a change
)

// recorder follows one request. Parts of the chain run in several goroutines, one after the other
// but for a request that was given up.
type recorder struct {
	started time.Time
	method  string
	body    *requestBody // what the client sent

	mu                sync.Mutex
	finished          bool // the answer has begun
	trace             journal.RequestTrace
	attributes        authorizer.Attributes // of the write itself, once it was judged
	lastEnd           time.Duration         // end of the last step
	oldObject         map[string]any        // the object as stored before, nil for a new one
	object            map[string]any        // the object as last seen
	mutationStarted   bool                  // mutation has begun
	validationStarted bool                  // the last opinions have begun
	isSecret          bool
}

// elapsed is the time since the request came.
func (t *recorder) elapsed() time.Duration { return time.Since(t.started) }

// addStep notes a step that ends now. The caller holds the lock.
func (t *recorder) addStep(at time.Duration, s journal.Step) {
	end := t.elapsed()
	s.At, s.Took, t.lastEnd = journal.Took(at), journal.Took(end-at), end
	if t.finished || len(t.trace.Steps) >= maxSteps {
		return
	}
	s.Changes, s.Left = t.redactChanges(s.Changes)
	t.trace.Steps = append(t.trace.Steps, s)
}

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

// isSecretPath are the fields of a Secret whose values nobody is shown.
func isSecretPath(path string) bool {
	return path == "data" || path == "stringData" || strings.HasPrefix(path, "data.") || strings.HasPrefix(path,
		"data[") ||
		strings.HasPrefix(path, "stringData.") || strings.HasPrefix(path, "stringData[") || strings.HasPrefix(path,
		"metadata.annotations") || path == "metadata"
}

func maskValue(v any) any {
	if v == nil {
		return nil
	}
	return "***"
}

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

// authorizerDecision is one answer of the authorizer.
type authorizerDecision struct {
	attributes authorizer.Attributes
	isRequest  bool
	allowed    bool
	reason     string
	err        error
}

func (t *recorder) recordAuthorization(at time.Duration, r authorizerDecision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepAuthorization, Refused: !r.allowed, Error: errorText(r.err), Message: r.reason}
	switch {
	case strings.HasPrefix(r.attributes.GetVerb(), "impersonate"):
		s.Name = journal.StepImpersonation
		s.Message = fmt.Sprintf("%s %s %s: %s", r.attributes.GetVerb(), r.attributes.GetResource(),
			r.attributes.GetName(), decisionText(r))
		s.Refused = false // another of the questions about it may be answered with yes
	case !r.isRequest:
		s.Message = fmt.Sprintf("also asked: %s %s %s: %s", r.attributes.GetVerb(), r.attributes.GetResource(),
			r.attributes.GetName(), decisionText(r))
		s.Refused = false // what follows from the answer is for who asked
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

// decisionText is the answer in words.
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

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// toUnstructured is an object as JSON decodes it, in the version of the request.
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
