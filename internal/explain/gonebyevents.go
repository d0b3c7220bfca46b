package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// maxGoneEvents bounds the events that are told of an object that is gone.
const maxGoneEvents = 5

// GoneByEvents explains an object that is not in the API any more, by the events that are left of
// it; ok is false when there are none. kind is as in the command.
func GoneByEvents(kind string, r journal.Ref, events []corev1.Event, now time.Time) (a Answer, ok bool) {
	namespace, name := r.Namespace, r.Name
	var own []corev1.Event
	for i := range events {
		e := &events[i]
		if strings.EqualFold(e.InvolvedObject.Kind, kind) && e.InvolvedObject.Name == name {
			own = append(own, *e)
		}
	}
	if len(own) == 0 {
		return Answer{}, false
	}
	slices.SortStableFunc(own, func(x, y corev1.Event) int { return eventTime(&y).Compare(eventTime(&x)) })
	last := own[0]
	a = Answer{Subject: kind + "/" + name, State: "gone", Code: "gone", Since: eventTime(&last), Cause: fmt.Sprintf(
		"It is no longer in the API; who removed it is not recorded. The last that was said of it, %s ago, is %s: %s.",
		ago(now.Sub(eventTime(&last))), last.Reason, strings.TrimSuffix(last.Message, "."))}
	if namespace != "" {
		a.Subject += " in " + namespace
	}
	for _, e := range own[:min(len(own), maxGoneEvents)] {
		a.Facts = append(a.Facts, fmt.Sprintf("%s ago: %s: %s", ago(now.Sub(eventTime(&e))), e.Reason, e.Message))
	}
	a.Findings = []finding.Finding{{Code: "Deleted", Severity: finding.Note, Stage: finding.StageChange,
		Object: finding.Object{Kind: last.InvolvedObject.Kind, Namespace: namespace, Name: name}, Value: last.Reason,
		Message: a.Cause}}
	a.Fixes = []Fix{commandFix("read all that was said of it", fmt.Sprintf(
		"kubectl -n %s get events --field-selector involvedObject.name=%s", namespace, name))}
	return a, true
}

// eventTime is when an event last happened.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
