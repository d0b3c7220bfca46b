package explain

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// leaving explains an object that makes Pods and is being deleted: it makes none any more, whatever
// number it asks for.
func (s Subject) leaving(a *Answer) bool {
	o, ok := s.Object.(metav1.Object)
	if !ok || templateOf(s.Object) == nil || o.GetDeletionTimestamp() == nil {
		return false
	}
	a.State, a.Since = "Terminating", o.GetDeletionTimestamp().Time
	a.causedAt = []finding.Stage{finding.StageChange}
	a.Cause = "It is being deleted, and goes at once."
	if f := o.GetFinalizers(); len(f) > 0 {
		a.Cause = fmt.Sprintf("It is being deleted, and goes when %s are gone from its finalizers.", joinList(f))
	}
	return true
}
