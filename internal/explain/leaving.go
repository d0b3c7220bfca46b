package explain

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
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

// maker names the controller that made the object; empty where a person did.
func (s Subject) maker() string {
	o, ok := s.Object.(metav1.Object)
	if !ok {
		return ""
	}
	if c := metav1.GetControllerOf(o); c != nil {
		return c.Kind + " " + c.Name
	}
	return ""
}

// livingPods are how many of the object's Pods have neither ended nor are being deleted.
func (s Subject) livingPods() int {
	n := 0
	for _, p := range s.Pods {
		if pod.IsActive(p) {
			n++
		}
	}
	return n
}

// noPod begins the cause of an object whose Pods are refused.
func (s Subject) noPod(a *Answer) string {
	if a.State == withoutPods && s.livingPods() > 0 {
		return "No further Pod can be made"
	}
	return "No Pod can be made"
}

// stuckRollout is the state of a Deployment whose new Pods do not become ready.
const stuckRollout = "stuck in a roll-out"

// withoutPods is the state of an object whose Pods are refused.
const withoutPods = "without Pods"

// furtherPods says of refused Pods that others of the object's are there, where that is so, and how
// a roll-out can do without more at once.
func (s Subject) furtherPods(a *Answer) {
	living := s.livingPods()
	if living == 0 || a.State != withoutPods {
		return
	}
	a.State = "short of Pods"
	a.Facts = append(a.Facts, fmt.Sprintf("%d of its Pods are there", living))
	d, ok := s.Object.(*appsv1.Deployment)
	if !ok {
		return
	}
	want := workload.Replicas(d.Spec.Replicas)
	if d.Status.UpdatedReplicas >= want || int32(living) < want {
		return
	}
	a.State = stuckRollout
	a.Facts = append(a.Facts, fmt.Sprintf("%d of %d Pods are of the newest template, the older ones serve on",
		d.Status.UpdatedReplicas, want))
	if r := d.Spec.Strategy.RollingUpdate; r != nil && r.MaxUnavailable != nil && r.MaxUnavailable.IntValue() == 0 &&
		!strings.HasSuffix(r.MaxUnavailable.String(), "%") {
		a.Fixes = append(a.Fixes, commandFix("or let an old Pod go before its successor is there (maxUnavailable 1)",
			fmt.Sprintf(`kubectl -n %s patch deployment %s --type=merge -p `+
				`'{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":1}}}}'`, s.Namespace, s.Name)))
	}
}

// untilAvailable says when ready Pods count as available by minReadySeconds; empty where they do.
func (s Subject) untilAvailable() string {
	seconds := workload.FieldsOf(s.Object).MinReadySeconds
	var left time.Duration
	n := 0
	for _, p := range s.Pods {
		if d := pod.UntilAvailable(p, seconds, s.Now); pod.IsReady(p) && d > 0 {
			n, left = n+1, max(left, d)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d ready Pods are not yet available: they count as available only %d s after they became "+
		"ready (minReadySeconds), the last in %s",
		n, seconds, ago(left))
}

// notYetAvailable explains a workload whose Pods are ready and wait for minReadySeconds: a roll-out
// goes on by itself when they count.
func (s Subject) notYetAvailable(want int32, when string) string {
	text := fmt.Sprintf("All %d Pods are ready; %s.", want, when)
	if d, ok := s.Object.(*appsv1.Deployment); ok && d.Status.UpdatedReplicas < want {
		text += fmt.Sprintf(" The roll-out goes on by itself: %d of %d Pods are of the new template, and the next "+
			"comes when those count as available.", d.Status.UpdatedReplicas, want)
	}
	return text
}

// graceText says how much of a Pod's grace period is left.
func graceText(p *corev1.Pod, now time.Time) string {
	grace := int64(pod.DeletionGracePeriod(p) / time.Second)
	left := max(p.DeletionTimestamp.Sub(now), 0)
	return fmt.Sprintf("terminationGracePeriodSeconds %d, %s of them left at most", grace, ago(left))
}
