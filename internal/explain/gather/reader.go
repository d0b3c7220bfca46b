package gather

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

// reader reads for one answer and keeps count of what could not be read. One goroutine uses it.
type reader struct {
	client kubernetes.Interface
	unread []string // what could not be read, with the error; each once
}

// absent tells the errors that only say that something is not there for this asker (403, 404).
func absent(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// seen tells whether what was read is there: err is nil. What the asker may not see, and what is
// not there or not served (403, 404), is silently absent; any other error is noted, for the answer
// to name.
func (r *reader) seen(what string, err error) bool {
	if err == nil {
		return true
	}
	if !absent(err) {
		if text := fmt.Sprintf("%s: %v", what, err); !slices.Contains(r.unread, text) {
			r.unread = append(r.unread, text)
		}
	}
	return false
}
