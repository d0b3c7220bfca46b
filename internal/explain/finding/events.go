package finding

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventWindow is how long a warning is worth telling.
const eventWindow = 10 * time.Minute

func eventTime(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	if at.IsZero() {
		at = e.CreationTimestamp.Time
	}
	return at
}

// newestEvent returns the newest event about an object that accept likes, nil when there is none.
func (c *Cluster) newestEvent(o Object, accept func(*corev1.Event) bool) *corev1.Event {
	var out *corev1.Event
	for i := range c.Events {
		e := &c.Events[i]
		if e.InvolvedObject.Kind == o.Kind && e.InvolvedObject.Name == o.Name &&
			(o.Namespace == "" || e.InvolvedObject.Namespace == o.Namespace) && accept(e) &&
			(out == nil || eventTime(out).Before(eventTime(e))) {
			out = e
		}
	}
	return out
}

// explainedReasons are warnings that other causes explain with numbers.
var explainedReasons = map[string]bool{"FailedScheduling": true, "BackOff": true, "Unhealthy": true, "Failed": true,
	"FailedCreate": true, "FailedMount": true, "ResizeError": true,
	"FailedPostStartHook": true, "ErrImageNeverPull": true, "NodeNotReady": true,
	"CalculateExpectedPodCountFailed": true,
	"NoPods":                          true, "UnmanagedPods": true, "ReplicaSetCreateError": true,
	"FailedGetContainerResourceMetric": true, "FailedGetResourceMetric": true, "FailedComputeMetricsReplicas": true}

// passingReasons are warnings about what the kubelet counts as well: a probe that is sent to
// another host has succeeded.
var passingReasons = map[string]bool{"ProbeWarning": true}

// tellsStatus reports whether a warning has the reason with which a Pod has failed: its status says
// that too.
func tellsStatus(o metav1.Object, reason string) bool {
	p, ok := o.(*corev1.Pod)
	return ok && p.Status.Phase == corev1.PodFailed && p.Status.Reason == reason
}

// warned tells warnings that other components wrote about an object, each reason once, newest.
func warned(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	seen := map[string]bool{}
	for i := range c.Events {
		e := &c.Events[i]
		if e.Type != corev1.EventTypeWarning || explainedReasons[e.Reason] || seen[e.Reason] ||
			e.InvolvedObject.Kind != self.Kind || e.InvolvedObject.Name != self.Name ||
			e.InvolvedObject.UID != "" && e.InvolvedObject.UID != o.GetUID() || tellsStatus(o, e.Reason) {
			continue
		}
		newest := c.newestEvent(self, func(x *corev1.Event) bool { return x.Reason == e.Reason })
		if newest == nil || c.Now.Sub(eventTime(newest)) > eventWindow || worksSince(o, eventTime(newest)) {
			continue
		}
		seen[e.Reason] = true
		who := newest.ReportingController
		if who == "" {
			who = newest.Source.Component
		}
		about, severity, related := self, Threat, []Object(nil)
		if passingReasons[e.Reason] {
			severity = Note
		}
		if node, ok := c.nodeOf(o, self, newest); ok {
			about, severity, related = node, Note, []Object{self}
		}
		out = append(out, Finding{Code: "Warning", Severity: severity, Stage: StageRun, Object: about, Related: related,
			Value: newest.Reason,
			Message: fmt.Sprintf("%s warned of %s %s, %s ago: %s: %s", who, self.Kind, self.Name,
				c.Now.Sub(eventTime(newest)).Round(time.Second), newest.Reason, newest.Message)})
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName == "" && refuses(newest.Message) {
			out = append(out, c.refusalCauses(self, o, newest.Message)...) // of a claim that is made for it
		}
	}
	return out
}
