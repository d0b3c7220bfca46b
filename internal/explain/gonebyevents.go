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

// GoneByController is the answer about an object that a controller deleted, by what it recorded of
// that; a is the answer by events, empty where there are none. ok is false when neither knows
// anything.
func GoneByController(a Answer, r journal.Ref, entries []journal.Entry, now time.Time) (_ Answer, ok bool) {
	acted, at, found := newest[journal.Acted](In{Entries: entries}, func(f journal.Acted) bool {
		return strings.Contains(f.Action, "delet")
	})
	if !found {
		return a, a.Cause != ""
	}
	self := finding.Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	if a.Cause == "" {
		a.Subject = strings.ToLower(r.Kind) + "/" + r.Name + " in " + r.Namespace
	}
	a.State, a.Code, a.Since = "gone", "gone", at
	a.Cause = fmt.Sprintf("The %s was deleted by the %s controller %s ago: %s.", r.Kind, acted.Controller,
		ago(now.Sub(at)), strings.TrimSuffix(acted.Message, "."))
	f := finding.Finding{Code: "Deleted", Severity: finding.Note, Stage: finding.StageChange, Object: self,
		Value: acted.Controller, Message: a.Cause}
	for _, d := range deletedByController {
		if d.user == acted.Controller {
			f.Field, f.Remedies = d.field, []finding.Remedy{{Say: d.rule}}
		}
	}
	a.Findings = []finding.Finding{f}
	a.Fixes = append(remedies(f.Remedies), a.Fixes...)
	return a, true
}

// deletedByController are the controllers that record why they delete objects, with the field that
// leads to it and what keeps the next such object.
var deletedByController = []deleter{
	{"ttl-after-finished", "", "spec.ttlSecondsAfterFinished",
		"to keep such a Job longer, make it with a greater spec.ttlSecondsAfterFinished, or without"},
	{"garbagecollector", "", "metadata.ownerReferences",
		"make it again without ownerReferences, or with the uid that its owner has now"},
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
