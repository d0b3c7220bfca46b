package story

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
	mostSteps   = 200
	mostChanges = 60  // of one step
	mostValue   = 400 // bytes of a string in a change
)

// teller follows one request. Parts of the chain run in several goroutines, one after the other but for a request that was given up.
type teller struct {
	begun  time.Time
	method string
	sent   *body // what the client sent

	mu       sync.Mutex
	told     bool // the answer has begun
	story    journal.Story
	about    authorizer.Attributes // of the write itself, once it was judged
	last     time.Duration         // end of the last step
	first    map[string]any        // the object as stored before, nil for a new one
	object   map[string]any        // the object as last seen
	admitted bool                  // mutation has begun
	judged   bool                  // the last opinions have begun
	secret   bool
}

// now is the time since the request came.
func (t *teller) now() time.Duration { return time.Since(t.begun) }

// add notes a step that ends now. The caller holds the lock.
func (t *teller) add(at time.Duration, s journal.Step) {
	end := t.now()
	s.At, s.Took, t.last = journal.Took(at), journal.Took(end-at), end
	if t.told || len(t.story.Steps) >= mostSteps {
		return
	}
	s.Changes, s.Left = t.presentable(s.Changes)
	t.story.Steps = append(t.story.Steps, s)
}

func (t *teller) presentable(changes []journal.Change) ([]journal.Change, int) {
	left := max(0, len(changes)-mostChanges)
	changes = changes[:len(changes)-left]
	for i := range changes {
		c := &changes[i]
		if t.secret && hidden(c.Path) {
			c.Was, c.Now = mask(c.Was), mask(c.Now)
			continue
		}
		c.Was, c.Now = short(c.Was), short(c.Now)
	}
	return changes, left
}

// hidden are the fields of a Secret whose values nobody is shown.
func hidden(path string) bool {
	return path == "data" || path == "stringData" || strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "data[") ||
		strings.HasPrefix(path, "stringData.") || strings.HasPrefix(path, "stringData[") || strings.HasPrefix(path, "metadata.annotations") || path == "metadata"
}

func mask(v any) any {
	if v == nil {
		return nil
	}
	return "***"
}

func short(v any) any {
	switch v := v.(type) {
	case string:
		if len(v) > mostValue {
			return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(v[:mostValue], ""), len(v))
		}
	case map[string]any:
		if raw, err := json.Marshal(v); err == nil && len(raw) > 8*mostValue {
			return fmt.Sprintf("{… %d fields, %d bytes}", len(v), len(raw))
		}
	case []any:
		if raw, err := json.Marshal(v); err == nil && len(raw) > 8*mostValue {
			return fmt.Sprintf("[… %d elements, %d bytes]", len(v), len(raw))
		}
	}
	return v
}

func (t *teller) authenticated(at time.Duration, res *authenticator.Response, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepAuthentication, Refused: !ok, Error: text(err)}
	if ok && res != nil && res.User != nil {
		t.story.User, t.story.Groups = res.User.GetName(), res.User.GetGroups()
		s.Says = fmt.Sprintf("%s is %s, in groups %s", t.sent.shown, t.story.User, strings.Join(t.story.Groups, ", "))
	} else if err == nil {
		s.Says = t.sent.shown + " names nobody"
	}
	t.add(at, s)
}

// ruling is one answer of the authorizer.
type ruling struct {
	about   authorizer.Attributes
	main    bool
	allowed bool
	reason  string
	err     error
}

func (t *teller) authorized(at time.Duration, r ruling) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := journal.Step{Name: journal.StepAuthorization, Refused: !r.allowed, Error: text(r.err), Says: r.reason}
	switch {
	case strings.HasPrefix(r.about.GetVerb(), "impersonate"):
		s.Name = journal.StepImpersonation
		s.Says = fmt.Sprintf("%s %s %s: %s", r.about.GetVerb(), r.about.GetResource(), r.about.GetName(), opinion(r))
		s.Refused = false // another of the questions about it may be answered with yes
	case !r.main:
		s.Says = fmt.Sprintf("also asked: %s %s %s: %s", r.about.GetVerb(), r.about.GetResource(), r.about.GetName(), opinion(r))
		s.Refused = false // what follows from the answer is for who asked
	default:
		t.about = r.about
		t.secret = r.about.GetResource() == "secrets" && r.about.GetAPIGroup() == ""
		if u := r.about.GetUser(); u != nil && u.GetName() != t.story.User {
			t.story.User, t.story.Groups = u.GetName(), u.GetGroups()
		}
		if s.Says == "" && r.allowed {
			s.Says = "allowed"
		}
	}
	t.add(at, s)
}

// opinion is the answer in words.
func opinion(r ruling) string {
	answer := "no"
	if r.allowed {
		answer = "yes"
	}
	if r.reason == "" {
		return answer
	}
	return answer + ", " + r.reason
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// plain is an object as JSON decodes it, in the version of the request.
func plain(obj runtime.Object, a admission.Attributes, o admission.ObjectInterfaces) map[string]any {
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
