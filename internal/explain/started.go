package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// A start is worth its parts when it is younger than startWindow and took slowStart; its largest
// part is part of the cause when it took longPart.
const (
	startWindow = 15 * time.Minute
	slowStart   = 3 * time.Second
	longPart    = 5 * time.Second
)

// startPart is a part of a Pod's start or end.
type startPart struct {
	what  string
	took  time.Duration
	field string // that makes it shorter or longer; empty: none
	value string // of that field
	waits bool   // nothing is done in it
	note  string // what would shorten it
}

// startParts takes the time between a Pod's creation and its readiness apart, largest first.
func startParts(in In, until time.Time) []startPart {
	var out []startPart
	add := func(p startPart) {
		if p.took >= 100*time.Millisecond {
			out = append(out, p)
		}
	}
	created := in.Pod.CreationTimestamp.Time
	bound := created
	initSince := map[string]time.Time{}
	waitingSince := map[string]time.Time{}
	var started time.Time
	pulled := map[string]bool{}
	for _, e := range in.Entries {
		if e.At.After(until.Add(time.Second)) {
			break
		}
		switch f := e.Fact.(type) {
		case journal.Written:
			if f.Verb == "create" && f.Subresource == "" {
				created = e.At
			}
		case journal.Bound:
			bound = e.At
		case journal.VolumeWaiting:
			if _, ok := waitingSince[f.Volume]; !ok && !f.Unmount {
				waitingSince[f.Volume] = e.At.Add(-time.Duration(f.Took))
			}
		case journal.VolumeReady:
			add(volumePart(in.Pod, f, e.At, waitingSince[f.Volume]))
		case journal.Pulled:
			if !f.Present && !pulled[f.Image] {
				pulled[f.Image] = true
				add(pullPart(in.Pod, f))
			}
		case journal.Waited:
			add(startPart{what: "its turn to " + f.For, took: time.Duration(f.Took), waits: true,
				note: "the kubelet limits how many heavy calls run at once"})
		case journal.Called:
			if f.Method == "RunPodSandbox" {
				add(startPart{what: "the sandbox (RunPodSandbox)", took: time.Duration(f.Took)})
			}
		case journal.BackingOff:
			add(startPart{what: fmt.Sprintf("the back-off of container %s (%s)", f.Container, f.What),
				took: time.Duration(f.Delay), waits: true})
		case journal.ContainerStarted:
			if f.Init {
				initSince[f.Container] = e.At
			} else {
				started = e.At
			}
		case journal.ContainerExited:
			if at, ok := initSince[f.Container]; ok {
				add(startPart{what: "init container " + f.Container, took: e.At.Sub(at),
					field: "spec.initContainers[" + f.Container + "]"})
				delete(initSince, f.Container)
			}
		}
	}
	add(startPart{what: "a node" + placementWait(in), took: bound.Sub(created), waits: true})
	if !started.IsZero() {
		out = append(out, probeParts(in, started, until)...)
	}
	slices.SortStableFunc(out, func(a, b startPart) int { return int(b.took - a.took) })
	return out
}

// placementWait says what the scheduler lacked at first.
func placementWait(in In) string {
	r, _, ok := newest[journal.Ruled](in, func(r journal.Ruled) bool { return r.Winner == "" && r.Message != "" })
	if !ok {
		return ""
	}
	return " (" + strings.TrimSuffix(r.Message, ".") + ")"
}

// volumePart is the time that a volume took, with the field that makes it long.
func volumePart(p *corev1.Pod, f journal.VolumeReady, at, waited time.Time) startPart {
	out := startPart{what: fmt.Sprintf("volume %s (%s)", f.Volume, f.Type), took: time.Duration(f.Took),
		field: "spec.volumes[" + f.Volume + "]"}
	if !waited.IsZero() && at.Sub(waited) > out.took {
		out.took, out.waits = at.Sub(waited), true
	}
	s := p.Spec.SecurityContext
	if s == nil || s.FSGroup == nil || s.FSGroupChangePolicy != nil &&
		*s.FSGroupChangePolicy == corev1.FSGroupChangeOnRootMismatch || f.Type == "emptyDir" || f.Type == "projected" {
		return out
	}
	out.field, out.value = "spec.securityContext.fsGroupChangePolicy", "Always"
	out.note = fmt.Sprintf("fsGroup %d is given to each file of it one by one; fsGroupChangePolicy OnRootMismatch "+
		"does that only once", *s.FSGroup)
	return out
}

// pullPart is the time that an image took.
func pullPart(p *corev1.Pod, f journal.Pulled) startPart {
	out := startPart{what: "pulling image " + f.Image, took: time.Duration(f.Took)}
	for _, c := range containers(p) {
		if c.spec.Image == f.Image && c.spec.ImagePullPolicy == corev1.PullAlways {
			out.field, out.value = fmt.Sprintf("spec.containers[%s].imagePullPolicy", c.spec.Name), "Always"
		}
	}
	return out
}

// probeParts are the times between a container's start and its probes' success.
func probeParts(in In, started, until time.Time) []startPart {
	var out []startPart
	for _, c := range containers(in.Pod) {
		if c.init && !pod.IsSidecar(c.spec) || c.spec.ReadinessProbe == nil && c.spec.StartupProbe == nil {
			continue
		}
		kind, p := "readiness", c.spec.ReadinessProbe
		if c.spec.StartupProbe != nil {
			kind, p = "startup", c.spec.StartupProbe
		}
		took := until.Sub(started)
		part := startPart{what: fmt.Sprintf("the %s probe of container %s", kind, c.spec.Name), took: took,
			field: fmt.Sprintf("spec.containers[%s].%sProbe", c.spec.Name, kind)}
		failed := 0
		last := ""
		for _, e := range in.Entries {
			if f, ok := e.Fact.(journal.Probed); ok && f.Container == c.spec.Name && f.Result == "failure" &&
				!e.At.After(until) {
				failed, last = failed+1, f.Message
			}
		}
		switch {
		case failed > 0:
			part.what += fmt.Sprintf(" (%d failures, the last: %s; asked every %d s)", failed,
				strings.TrimSuffix(last, "."),
				max(p.PeriodSeconds, 1))
		case p.InitialDelaySeconds > 0 && took >= secondsOf(int64(p.InitialDelaySeconds)):
			part.waits, part.field, part.value = true, part.field+".initialDelaySeconds",
				fmt.Sprint(p.InitialDelaySeconds)
			part.what += fmt.Sprintf(" (initialDelaySeconds %d, in which nobody asks)", p.InitialDelaySeconds)
			part.note = "a startupProbe asks from the beginning"
		case p.PeriodSeconds > 5 || p.SuccessThreshold > 1:
			part.waits, part.field, part.value = true, part.field+".periodSeconds", fmt.Sprint(p.PeriodSeconds)
			part.what += fmt.Sprintf(" (asked every %d s, %d successes wanted)", p.PeriodSeconds,
				max(p.SuccessThreshold, 1))
		}
		if took >= 100*time.Millisecond {
			out = append(out, part)
		}
	}
	return out
}

// withStart adds the parts of a start that took its time, a short while ago.
func withStart(in In, a *Answer) {
	c := pod.Condition(in.Pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue || in.Now.Sub(c.LastTransitionTime.Time) > startWindow {
		return
	}
	for _, x := range containers(in.Pod) {
		if x.status != nil && x.status.RestartCount > 0 {
			return
		}
	}
	until := c.LastTransitionTime.Time
	if _, at, ok := newest[journal.ConditionChanged](in, func(f journal.ConditionChanged) bool {
		return f.Type == string(corev1.PodReady) && f.Status == string(corev1.ConditionTrue)
	}); ok {
		until = at
	}
	total := until.Sub(in.Pod.CreationTimestamp.Time)
	if total < slowStart {
		return
	}
	parts := startParts(in, until)
	if len(parts) == 0 {
		return
	}
	f := finding.Finding{Code: "SlowStart", Severity: finding.Note, Stage: finding.StageRun, Object: in.object(),
		Field: parts[0].field, Value: parts[0].value,
		Numbers: map[string]string{"total": total.Round(time.Millisecond).String()}}
	lines := partLines(parts, &f)
	f.Message = fmt.Sprintf("It became ready %s after it was created, most of it for %s.", ago(total), lines[0])
	if parts[0].took >= longPart {
		a.Cause += " " + f.Message
		if parts[0].note != "" {
			a.Fixes = append(a.Fixes, Fix{Description: "to start faster: " + parts[0].note})
		}
	} else {
		a.Facts = append(a.Facts, f.Message)
	}
	for _, l := range lines[min(1, len(lines)):min(len(lines), 6)] {
		a.Facts = append(a.Facts, "also for "+l)
	}
	a.Findings = append(a.Findings, f)
}

// partLines prints parts, and puts their times among the numbers.
func partLines(parts []startPart, f *finding.Finding) []string {
	var out []string
	for _, p := range parts {
		s := fmt.Sprintf("%s, %s", p.what, ago(p.took))
		if p.waits {
			s += " of pure waiting"
		}
		if p.note != "" {
			s += " (" + p.note + ")"
		}
		out = append(out, s)
		name, _, _ := strings.Cut(p.what, " (")
		f.Numbers[name] = p.took.Round(time.Millisecond).String()
	}
	return out
}

// withEnd adds how long the end of a Pod took, and which container held it up.
func withEnd(in In, a *Answer) {
	d, asked, ok := newest[journal.Deleting](in, nil)
	if !ok {
		return
	}
	end := in.Entries[len(in.Entries)-1].At
	if _, at, removed := newest[journal.Removed](in, nil); removed {
		end = at
	}
	total := end.Sub(asked)
	if total < slowStart {
		return
	}
	f := finding.Finding{Code: "SlowEnd", Severity: finding.Note, Stage: finding.StageChange, Object: in.object(),
		Field: "spec.terminationGracePeriodSeconds", Value: fmt.Sprint(d.Grace), Numbers: map[string]string{
			"total": total.Round(time.Millisecond).String(), "terminationGracePeriodSeconds": fmt.Sprint(d.Grace)}}
	f.Message = fmt.Sprintf("Its end took %s", ago(total))
	for _, e := range in.Entries {
		s, ok := e.Fact.(journal.StopStep)
		if !ok || e.At.Before(asked) {
			continue
		}
		switch s.Step {
		case "preStop":
			if s.Took > 0 {
				f.Message += fmt.Sprintf("; the preStop hook of container %s took %s", s.Container,
					ago(time.Duration(s.Took)))
				f.Field, f.Value = "spec.containers["+s.Container+"].lifecycle.preStop", s.Container
			}
		case "KILL":
			f.Message += fmt.Sprintf("; container %s did not end on TERM and was killed after the grace period of %d s",
				s.Container, d.Grace)
		}
	}
	if x, _, ok := newest[journal.ContainerExited](in,
		func(x journal.ContainerExited) bool { return x.ExitCode == 137 }); ok &&
		!strings.Contains(f.Message, "was killed") && total >= secondsOf(d.Grace) {
		f.Message += fmt.Sprintf("; container %s did not end when it was asked to and was killed after the grace "+
			"period of %d s (exit code 137)", x.Container, d.Grace)
	}
	f.Message += "."
	a.Cause += " " + f.Message
	a.Findings = append(a.Findings, f)
	if strings.Contains(f.Message, "was killed") {
		a.Fixes = append(a.Fixes,
			Fix{Description: "let the program end on TERM (as process 1 it gets no default action: a shell passes " +
				"nothing on unless it starts the program with exec), or make terminationGracePeriodSeconds shorter"})
	}
}

// object names the Pod.
func (in In) object() finding.Object {
	return finding.Object{Kind: "Pod", Namespace: in.Ref.Namespace, Name: in.Ref.Name}
}
