package gather

import (
	"fmt"
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/trace/packet"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// reader reads for one answer and keeps count of what could not be read. One goroutine uses it.
type reader struct {
	client kubernetes.Interface
	unread []string  // what could not be read, with the error; each once
	after  time.Time // before this nothing is looked at; zero: no bound
	row    *kindRow  // of the kind asked about, where it is none of kindRows
	// what packets meet, read when the first Pod or Service asks; nil: not read, or not to be seen
	packets *packet.ClusterState
}

// absent tells the errors that only say that something is not there for this caller (403, 404).
func absent(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// seen tells whether what was read is there: err is nil. What the caller may not see, and what is
// not there or not served (403, 404), is silently absent; any other error is noted, for the answer
// to name.
func (r *reader) seen(what string, err error) bool {
	if err == nil {
		return true
	}
	if !absent(err) {
		r.note(fmt.Sprintf("%s: %v", what, err))
	}
	return false
}

// note notes once that the answer does without something.
func (r *reader) note(text string) {
	if !slices.Contains(r.unread, text) {
		r.unread = append(r.unread, text)
	}
}
