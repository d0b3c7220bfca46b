package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// pendingProbe returns the probe that a running container has to pass: the startup probe, then the
// readiness probe.
func pendingProbe(c container) (kind string, p *corev1.Probe) {
	switch {
	case c.spec.StartupProbe != nil && (c.status == nil || c.status.Started == nil || !*c.status.Started):
		return "startup", c.spec.StartupProbe
	case c.spec.ReadinessProbe != nil:
		return "readiness", c.spec.ReadinessProbe
	}
	return "", nil
}

// probePending describes the probe that a running container has to pass; lead begins the sentence.
// It returns false if there is none.
func probePending(a *Answer, in In, c container, lead string) bool {
	kind, p := pendingProbe(c)
	pr, at, requested := newest[journal.Probed](in,
		func(f journal.Probed) bool { return f.Container == c.spec.Name && f.Probe == kind })
	if !requested { // the journal is about an earlier status: use the container's last probe results
		pr, at, requested = newest[journal.Probed](in,
			func(f journal.Probed) bool { return f.Container == c.spec.Name && f.Probe != "liveness" })
	}
	if requested && pr.Result == "unknown" && p != nil {
		if port, ok := unnamedPort(c.spec, probeOf(c.spec, pr.Probe)); ok {
			w := portUnnamed(in, c.spec, pr, port)
			a.Cause = fmt.Sprintf("%s: the %s probe of container %s %s. %s", lead, pr.Probe, c.spec.Name, w.text,
				notCounted(pr.Probe))
			a.Next = "the probe is tried again each period"
			a.Fixes = append(append(a.Fixes, w.fixes...), logsOf(in, c.spec.Name))
			return true
		}
	}
	if requested && pr.Result == "unknown" {
		a.Cause = fmt.Sprintf("%s: the %s probe of container %s cannot be run: %s. %s", lead, pr.Probe, c.spec.Name,
			strings.TrimSuffix(plainWords(pr.Message), "."), notCounted(pr.Probe))
		a.Next = "the probe is tried again each period"
		a.Fixes = append(a.Fixes, probeProgramFixes(in, c, pr)...)
		a.Fixes = append(append(a.Fixes, diagnoseProbe(in, c.spec, pr).commands...), logsOf(in, c.spec.Name))
		return true
	}
	if requested && pr.Result != "success" {
		w := diagnoseProbe(in, c.spec, withSockets(in, pr))
		a.Cause = fmt.Sprintf("%s: the %s probe of container %s %s.", lead, pr.Probe, c.spec.Name, w.text)
		allowed := ""
		if p != nil && pr.Probe == "startup" {
			allowed = fmt.Sprintf(" of %d that failureThreshold allows", p.FailureThreshold)
		}
		a.Facts = append(a.Facts, fmt.Sprintf("%d failures in a row%s, the last %s ago: %s", pr.Count, allowed,
			ago(in.Now.Sub(at)), strings.TrimSuffix(pr.Message, ".")))
		a.Next = "the probe asks again each period; the Pod gets no traffic from Services meanwhile"
		if pr.Probe == "startup" && p != nil {
			a.Next = fmt.Sprintf("it is asked every %ds; %d failures in a row are allowed, then the kubelet ends the "+
				"container", p.PeriodSeconds, p.FailureThreshold)
		}
		a.Fixes = append(append(append(a.Fixes, w.fixes...), w.commands...), logsOf(in, c.spec.Name))
		askedByProbe(a, in, c, pr)
		ownWords(a, in, c)
		return true
	}
	if p == nil {
		return false
	}
	first := c.status.State.Running.StartedAt.Add(secondsOf(int64(p.InitialDelaySeconds)))
	if left := first.Sub(in.Now); left > 0 {
		a.Cause = fmt.Sprintf(
			"%s: the %s probe of container %s has not been asked yet, because its initialDelaySeconds is %d.", lead,
			kind, c.spec.Name, p.InitialDelaySeconds)
		a.Next = fmt.Sprintf("it is asked first in %s, then every %ds", ago(left), p.PeriodSeconds)
		a.Fixes = append(a.Fixes, editedProbe(in, journal.Probed{Container: c.spec.Name, Probe: kind},
			"ask from the beginning: a probe that fails before the program listens does no harm to readiness",
			func(x *corev1.Probe) { x.InitialDelaySeconds = 0 }))
		return true
	}
	a.Cause = fmt.Sprintf("%s: the %s probe of container %s has not succeeded so far.", lead, kind, c.spec.Name)
	a.Next = fmt.Sprintf("it is asked every %ds", max(p.PeriodSeconds, 1))
	if p.SuccessThreshold > 1 {
		a.Cause = fmt.Sprintf("%s: the %s probe of container %s has to succeed %d times in a row (successThreshold), "+
			"and has not yet.", lead, kind, c.spec.Name, p.SuccessThreshold)
		if requested && pr.Result == "success" && pr.Probe == kind {
			inARow(a, in, c, at)
		}
	}
	a.Fixes = append(a.Fixes, logsOf(in, c.spec.Name))
	return true
}

// notCounted says what a probe that cannot be run means for its container.
func notCounted(probe string) string {
	if probe == "readiness" {
		return "Such a result is not counted: the container stays not ready until the probe can be run."
	}
	return "Such a result is not counted: the container stays as it is, neither ready nor restarted for it, until " +
		"the probe can be run."
}

// inARow tells of a probe that succeeds, and has to more often than it could: nothing is wrong. at
// is when it first succeeded.
func inARow(a *Answer, in In, c container, at time.Time) {
	kind, p := pendingProbe(c)
	period := secondsOf(int64(max(p.PeriodSeconds, 1)))
	all := period * time.Duration(p.SuccessThreshold-1)
	a.Cause = fmt.Sprintf("Nothing is wrong: the %s probe of container %s succeeds since %s, and the Pod is ready "+
		"after %d successes in a row (successThreshold), one every %ds: %ds after the first. It only has to be "+
		"waited for.",
		kind, c.spec.Name, ago(in.Now.Sub(at)), p.SuccessThreshold, max(p.PeriodSeconds, 1), int(all.Seconds()))
	if left := all - in.Now.Sub(at); left > 0 {
		a.Next = fmt.Sprintf("the last of them is due in %s", ago(left))
	}
	a.Fixes = append(a.Fixes, editedProbe(in, journal.Probed{Container: c.spec.Name, Probe: kind},
		"let one success suffice: successThreshold 1", func(x *corev1.Probe) { x.SuccessThreshold = 1 }))
}

// notReady explains why a Pod with running containers is not ready.
func notReady(in In) *Answer {
	p := in.Pod
	if p == nil || p.Spec.NodeName == "" {
		return nil
	}
	if c := pod.Condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return nil
	}
	a := &Answer{State: "not Ready"}
	if c := pod.Condition(p, corev1.PodReady); c != nil {
		a.Since = c.LastTransitionTime.Time
	}
	for _, c := range containers(p) {
		if c.status == nil || c.init || c.status.Ready {
			continue
		}
		if t := c.status.State.Terminated; t != nil {
			terminationCause(a, in, c, t)
			return a
		}
		if c.status.State.Running == nil || !probePending(a, in, c, "The Pod runs but is not ready") {
			a.Cause = fmt.Sprintf("Container %s runs but is not ready yet: its status does not say so yet.",
				c.spec.Name)
			if c.spec.ReadinessProbe == nil && c.spec.StartupProbe == nil && c.status.State.Running != nil &&
				in.Now.Sub(c.status.State.Running.StartedAt.Time) > leastWell {
				a.Fixes = append(a.Fixes, commandFix("nothing in its spec keeps it from being ready: when this "+
					"lasts, make the Pod anew, which ends what it does now", againCommand(p)))
			}
			if c.spec.ReadinessProbe != nil {
				a.Cause = fmt.Sprintf("Container %s runs but is not ready yet: its readiness probe has not "+
					"succeeded so far.",
					c.spec.Name)
			}
		}
		return a
	}
	if readinessGateFalse(a, p) {
		return a
	}
	if c := pod.Condition(p, corev1.PodReady); c != nil && c.Message != "" {
		a.Cause = c.Message
		return a
	}
	return nil
}

// readinessGateFalse explains a readiness gate whose condition is not true.
func readinessGateFalse(a *Answer, p *corev1.Pod) bool {
	for _, g := range p.Spec.ReadinessGates {
		if c := pod.Condition(p, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			a.Cause = fmt.Sprintf("All containers are ready; the readiness gate %s is not True: whoever owns that "+
				"condition has to set it.", g.ConditionType)
			a.Fixes = []Fix{
				commandFix("set it by hand",
					fmt.Sprintf(
						`kubectl -n %s patch pod %s --subresource=status -p %s`, p.Namespace, p.Name, shellquote.Quoted(
							fmt.Sprintf(`{"status":{"conditions":[{"type":%s,"status":"True"}]}}`,
								shellquote.JSON(string(g.ConditionType))))))}
			return true
		}
	}
	return false
}
