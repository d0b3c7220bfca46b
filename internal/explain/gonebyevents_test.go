package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// Of an object that is gone its events are told, newest first; without events nothing is known.
func TestAGoneObjectIsExplainedByItsEvents(t *testing.T) {
	event := func(kind, name, reason string, ago time.Duration) corev1.Event {
		return corev1.Event{Reason: reason, Message: "said " + reason, LastTimestamp: metav1.NewTime(t0.Add(-ago)),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}}
	}
	events := []corev1.Event{event("Job", "report", "SuccessfulCreate", time.Minute), event("Job", "report",
		"Completed",
		30*time.Second), event("Job", "other", "Odd", 0), event("CronJob", "report", "Odd", 0)}
	a, ok := GoneByEvents("job", journal.Ref{Namespace: "shop", Name: "report"}, events, t0)
	if !ok || a.State != "gone" || !strings.Contains(a.Cause, "30s ago, is Completed: said Completed") ||
		len(a.Facts) != 2 || a.Findings[0].Object.Kind != "Job" {
		t.Errorf("got %+v, want the Job's own events, newest first", a)
	}
	if _, ok := GoneByEvents("job", journal.Ref{Namespace: "shop", Name: "reports"}, events, t0); ok {
		t.Error("got an answer about an object without events")
	}
}
