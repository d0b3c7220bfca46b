package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// requestField is the path of the largest request of a resource.
func requestField(p *corev1.Pod, name string) string {
	best, path := int64(-1), "spec.containers[*].resources.requests."+name
	if r := p.Spec.Resources; r != nil {
		if _, ok := r.Requests[corev1.ResourceName(name)]; ok {
			return "spec.resources.requests." + name
		}
	}
	if q, ok := p.Spec.Overhead[corev1.ResourceName(name)]; ok {
		best, path = q.MilliValue(), "spec.overhead."+name
	}
	look := func(list string, specs []corev1.Container) {
		for i := range specs {
			if q, ok := specs[i].Resources.Requests[corev1.ResourceName(name)]; ok && q.MilliValue() > best {
				best, path = q.MilliValue(), fmt.Sprintf("spec.%s[%d].resources.requests.%s", list, i, name)
			}
		}
	}
	look("initContainers", p.Spec.InitContainers)
	look("containers", p.Spec.Containers)
	return path
}

// containerFindings are the containers that do not run, or were restarted, as data.
func containerFindings(in In) []finding.Finding {
	var out []finding.Finding
	index := map[bool]int{}
	for _, c := range containers(in.Pod) {
		list := "containers"
		if c.init {
			list = "initContainers"
		}
		at := fmt.Sprintf("spec.%s[%d]", list, index[c.init])
		index[c.init]++
		if c.status == nil {
			continue
		}
		f := finding.Finding{Stage: finding.StageRun, Object: in.object(), Field: at, Value: c.spec.Name,
			Numbers: map[string]string{"restartCount": strconv.Itoa(int(c.status.RestartCount))}}
		w, t := c.waiting(), c.status.State.Terminated
		if k := stoppedByProbe(in, c); k.known {
			f.Message = fmt.Sprintf("%s is stopped by the kubelet.", c.title())
			probeKillFinding(in, c, k, &f)
			f.Remedies = containerRemedies(in, c, nil)
			out = append(out, f)
			continue
		}
		switch {
		case w != nil && slices.Contains(imageReasons, w.Reason) && imageVolume(in.Pod, c, w.Message) >= 0:
			out = append(out, volumeImageFinding(in, c, f))
			continue
		case w != nil && slices.Contains(imageReasons, w.Reason):
			f.Code, f.Field, f.Value, f.Stage = w.Reason, at+".image", c.spec.Image, finding.StageImage
			f.Message = fmt.Sprintf("%s has no image %s: %s", c.title(), c.spec.Image, w.Message)
			if c.spec.ImagePullPolicy == corev1.PullNever {
				f.Field, f.Value, f.Want = at+".imagePullPolicy", "Never", "IfNotPresent"
				f.Message += ". Its imagePullPolicy Never forbids to fetch it."
			}
			pullSecretRefused(in, c, &f)
			f.Remedies = containerRemedies(in, c, nil)
		case w != nil && slices.Contains(configReasons, w.Reason):
			f.Code = w.Reason
			f.Message = fmt.Sprintf("%s cannot be made: %s", c.title(), strings.TrimSuffix(plainWords(w.Message),
				".")+".") + startRefusedText(in, c, w.Message)
			if field, value, want := wordsField(in, c, at, w.Message); field != "" {
				f.Field, f.Value, f.Want = field, value, want
			}
			f.Remedies = containerRemedies(in, c, nil)
		case w != nil && w.Reason == hookError:
			continue // hookFindings tells it
		case w != nil && w.Reason == "CrashLoopBackOff":
			t = c.status.LastTerminationState.Terminated
			fallthrough
		default:
			if w == nil && t == nil && c.status.State.Running != nil && c.status.RestartCount > 0 {
				t = c.status.LastTerminationState.Terminated
			}
			if t == nil || t.ExitCode == 0 && t.Reason != "OOMKilled" && c.status.RestartCount == 0 ||
				sidecarEndedWithPod(in.Pod, c, t) {
				continue
			}
			out = append(out, exitFinding(in, c, t, f))
			if t.ExitCode != 0 && !killedByProbe(in, c, t).known && !endedByDeletion(in.Pod, t) {
				out = append(out, deniedFindings(in, c, at, t)...)
				out = append(out, changedFindings(in, c, t)...)
			}
			continue
		}
		out = append(out, f)
	}
	return append(out, debuggingFindings(in)...)
}

// exitFinding is how a container ended, with the field to blame as far as that is known.
func exitFinding(in In, c container, t *corev1.ContainerStateTerminated, f finding.Finding) finding.Finding {
	f.Code, f.Numbers["exitCode"] = "ContainerExited", strconv.Itoa(int(t.ExitCode))
	f.Message = fmt.Sprintf("%s ended with %s.", c.title(), exitText(c, t))
	m, k, at := memoryStateOf(in, c, t), killedByProbe(in, c, t), f.Field
	resized, ended := resizeRestart(in, c, t)
	switch {
	case m.oomKilled:
		f.Code, f.Field = "OutOfMemory", f.Field+".resources.limits.memory"
		f.Value = c.spec.Resources.Limits.Memory().String()
		if m.limit == 0 && m.ofPod > 0 {
			f.Field, f.Value = "spec.resources.limits.memory", in.Pod.Spec.Resources.Limits.Memory().String()
		}
		f.Numbers["limit"] = f.Value
	case k.known:
		probeKillFinding(in, c, k, &f)
	case ended:
		return resized
	case t.ExitCode == 126 || t.ExitCode == 127 || neverStarted(t):
		f.Field += ".command"
		if field, value, _ := wordsField(in, c, at, t.Message); strings.HasPrefix(field, f.Field) ||
			neverStarted(t) && strings.HasPrefix(field, at+".") {
			f.Field, f.Value = field, value
		}
	}
	if line := lastLine(in, c, t); line != "" && !k.known && !strings.Contains(f.Message, line) {
		f.Message = fmt.Sprintf("%s It said last: %s", f.Message, line)
	}
	f.Remedies = containerRemedies(in, c, t)
	if runsWellSince(in, c) {
		f.Severity = finding.Note
		f.Message += " It has run well since."
	}
	if len(in.Pod.Finalizers) > 0 && endedByDeletion(in.Pod, t) {
		f.Severity = finding.Note // what holds the object is told
	}
	if in.Now.Sub(t.FinishedAt.Time) > restartWindow && c.status.State.Running != nil || t.ExitCode == 0 &&
		!k.known && in.Pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		f.Severity = finding.Note
	}
	return f
}

// probeFindings are probes that running containers fail now, as data.
func probeFindings(in In) []finding.Finding {
	var out []finding.Finding
	if in.Pod.DeletionTimestamp != nil {
		return nil
	}
	for i, c := range in.Pod.Spec.Containers {
		for _, x := range containers(in.Pod) {
			if x.init || x.spec.Name != c.Name || x.status == nil || x.status.State.Running == nil || x.status.Ready {
				continue
			}
			kind, p := pendingProbe(x)
			f, _, ok := newest[journal.Probed](in,
				func(f journal.Probed) bool { return f.Container == c.Name && f.Probe == kind })
			if p == nil || !ok || f.Result == "success" {
				continue
			}
			d := diagnoseProbe(in, x.spec, withSockets(in, f))
			field, value, want := probeField(x.spec, p, f.Message, d)
			out = append(out, finding.Finding{Code: "ProbeFails", Stage: finding.StageTraffic, Object: in.object(),
				Field: fmt.Sprintf("spec.containers[%d].%sProbe%s", i, kind, field), Value: value, Want: want,
				Severity: failsYet(f, p), Remedies: asRemedies(append(slices.Clone(d.fixes), d.commands...)),
				Numbers: map[string]string{"failures": strconv.Itoa(f.Count),
					"periodSeconds":  fmt.Sprint(p.PeriodSeconds),
					"timeoutSeconds": fmt.Sprint(p.TimeoutSeconds), "failureThreshold": fmt.Sprint(p.FailureThreshold)},
				Message: fmt.Sprintf("The %s probe of container %s %s.", kind, c.Name, d.text)})
			out = append(out, askedSeldom(in, i, kind, p)...)
		}
	}
	return out
}

// blindProbes are liveness probes of running containers that cannot be run: their results are not
// counted, so nobody restarts such a container when it hangs, however ready it is.
func blindProbes(in In) []finding.Finding {
	var out []finding.Finding
	for _, c := range containers(in.Pod) {
		p := c.spec.LivenessProbe
		if p == nil || c.status == nil || c.status.State.Running == nil || in.Pod.DeletionTimestamp != nil {
			continue
		}
		f, at, ok := newest[journal.Probed](in, func(f journal.Probed) bool {
			return f.Container == c.spec.Name && f.Probe == "liveness"
		})
		if !ok || f.Result != "unknown" || at.Before(c.status.State.Running.StartedAt.Time) {
			continue
		}
		said := strings.TrimSuffix(plainWords(f.Message), ".")
		fixes := probeProgramFixes(in, c, f)
		if port, unnamed := unnamedPort(c.spec, p); unnamed {
			w := portUnnamed(in, c.spec, f, port)
			said, fixes = w.text, w.fixes
		}
		field, value, want := probeField(c.spec, p, f.Message, probeDiagnosis{})
		out = append(out, finding.Finding{Code: "ProbeFails", Severity: finding.Threat, Stage: finding.StageRun,
			Object: in.object(), Field: pathOf(in.Pod, c) + ".livenessProbe" + field, Value: value, Want: want,
			Message: fmt.Sprintf("The liveness probe of container %s cannot be run: %s. Such a result is not counted: "+
				"nobody restarts the container when it hangs.", c.spec.Name, said), Remedies: asRemedies(fixes)})
	}
	return out
}

// longProbePeriod is from which period on one failure of a probe costs minutes.
const longProbePeriod = 120

// askedSeldom is a probe that has failed and is asked again only after minutes: however well the
// container is by then, it is not ready before.
func askedSeldom(in In, i int, kind string, p *corev1.Probe) []finding.Finding {
	if p.PeriodSeconds < longProbePeriod || kind == "liveness" {
		return nil
	}
	name := in.Pod.Spec.Containers[i].Name
	f := finding.Finding{Code: "ProbeLate", Severity: finding.Threat, Stage: finding.StageTraffic, Object: in.object(),
		Field: fmt.Sprintf("spec.containers[%d].%sProbe.periodSeconds", i, kind), Value: fmt.Sprint(p.PeriodSeconds),
		Want: "10", Numbers: map[string]string{"periodSeconds": fmt.Sprint(p.PeriodSeconds)},
		Message: fmt.Sprintf("The %s probe of container %s has failed and is asked again only after %d s "+
			"(periodSeconds): before, it is not ready, however well it is.", kind, name, p.PeriodSeconds)}
	f.Remedies = asRemedies([]Fix{editedContainer(in, name, "let periodSeconds be 10", func(x *corev1.Container) {
		if q := probeOf(x, kind); q != nil {
			q.PeriodSeconds = 10
		}
	})})
	return []finding.Finding{f}
}

// gateFindings are gates that somebody has to lift, as data.
func gateFindings(in In) []finding.Finding {
	var out []finding.Finding
	if in.Pod.Spec.NodeName == "" {
		for i, g := range in.Pod.Spec.SchedulingGates {
			out = append(out, finding.Finding{Code: "SchedulingGated", Stage: finding.StageCreation,
				Object: in.object(),
				Field:  fmt.Sprintf("spec.schedulingGates[%d]", i), Value: g.Name,
				Message: fmt.Sprintf("Scheduling gate %s keeps the Pod from the scheduler until it is removed.",
					g.Name)})
		}
		if s := in.Pod.Spec.SchedulerName; s != corev1.DefaultSchedulerName && pod.Condition(in.Pod,
			corev1.PodScheduled) == nil && s != "" {
			out = append(out, finding.Finding{Code: "SchedulerUnknown", Stage: finding.StageControl,
				Object: in.object(),
				Field:  "spec.schedulerName", Value: s, Want: corev1.DefaultSchedulerName,
				Message: fmt.Sprintf("The Pod asks for scheduler %s, and none of that name has looked at it.", s)})
		}
		return out
	}
	for i, g := range in.Pod.Spec.ReadinessGates {
		if c := pod.Condition(in.Pod, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			out = append(out, finding.Finding{Code: "ReadinessGate", Stage: finding.StageTraffic, Object: in.object(),
				Field: fmt.Sprintf("spec.readinessGates[%d]", i), Value: string(g.ConditionType),
				Message: fmt.Sprintf("Readiness gate %s is not True: whoever owns that condition has to set it.",
					g.ConditionType)})
		}
	}
	return out
}

// ofOneContainer are rows of causes that are about one container and why it does not run.
var ofOneContainer = []string{"image", "configuration", "crashing"}

// podFindings are everything that is wrong with a Pod, as data, in the order of what to mend first.
// told are those that the answer's own sentences are made from.
func podFindings(in In, a Answer) (told, more []finding.Finding) {
	told = append(endFindings(in), a.Findings...)
	if in.Pod != nil {
		beside := append(gateFindings(in), probeFindings(in)...)
		if slices.Contains(ofOneContainer, a.Code) {
			more = beside // another container's, or the Pod's: its sentences do not tell of them
		} else {
			text := a.Cause + "\n" + strings.Join(a.Facts, "\n")
			for _, f := range beside {
				if f.Code == "ProbeFails" && f.Severity == finding.Broken && !f.Names(text) {
					more = append(more, f) // another container's
				} else {
					told = append(told, f)
				}
			}
		}
		told = append(told, refusalFindings(in, a.refusals)...)
		told = append(told, hookFindings(in)...)
		more = append(append(more, besideContainer(in, a, containerFindings(in))...), killedProcesses(in)...)
		more = append(more, blindProbes(in)...)
		more = append(more, seLinuxFindings(in)...)
	} else if x, _, ok := newest[journal.ContainerExited](in,
		func(x journal.ContainerExited) bool { return x.ExitCode != 0 }); ok {
		told = append(told, finding.Finding{Code: "ContainerExited", Stage: finding.StageRun, Object: in.object(),
			Field: "spec.containers[" + x.Container + "]", Value: x.Container,
			Numbers: map[string]string{"exitCode": strconv.Itoa(int(x.ExitCode))}, Message: x.Line() + "."})
	}
	if in.Objects != nil {
		more = append(more, withoutDrivers(finding.Of(in.Objects, in.object()), told)...)
	}
	told = append(told, causeFinding(in, a, append(slices.Clone(told), more...))...)
	return inOrder(in, withRemedies(a, told)), inOrder(in, more)
}

// withoutDrivers are findings without those of drivers of which the kubelet itself has told.
func withoutDrivers(list, told []finding.Finding) []finding.Finding {
	return slices.DeleteFunc(list, func(f finding.Finding) bool {
		return f.Code == "DriverNotRegistered" && slices.ContainsFunc(told, func(x finding.Finding) bool {
			return x.Code == f.Code && x.Value == f.Value
		})
	})
}

// healthy are states of an answer that says that nothing is wrong.
var healthy = []string{"Ready", "Succeeded", "Complete", "waiting", "running", "Bound"}

// Well reports whether the answer says that nothing is wrong.
func (a Answer) Well() bool {
	return slices.Contains(healthy, a.State) && !slices.ContainsFunc(a.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.Broken
	})
}

// Key is equal for answers that say the same but for times: their state, cause and findings.
func (a Answer) Key() string {
	out := a.State + "\n" + a.Code
	for _, f := range a.Findings {
		out += "\n" + f.Code + " " + f.Object.String() + " " + f.Field + " " + f.Value
	}
	return out
}

// selectsMeant reports whether a fix lets a Pod's nodeSelector say what nodes have and was probably
// meant.
func selectsMeant(f Fix) bool { return len(f.nodeLabels) > 0 && !f.Proven }

// namesMeant reports whether a finding knows which object was probably meant by the one that the
// cause says is missing.
func namesMeant(a Answer, f finding.Finding) bool {
	return f.Code == "ReferenceMissing" && f.Severity == finding.Broken && f.Near && strings.Contains(a.Cause, f.Value)
}

// maxAlso bounds the findings that are told beside the cause.
const maxAlso = 6

// withFindings joins findings to an answer. told are those that its sentences are made from; of
// more those that it does not name yet are told too, and what is called well is not when one is
// broken.
func withFindings(a Answer, told, more []finding.Finding) Answer {
	a.Findings = finding.Roots(append(slices.Clone(told), more...))
	more = finding.Roots(more)
	leadWithReference(&a, more)
	leadWithStrategy(&a, more)
	completeKey(&a, more)
	a.leadWithCause(more)
	text := a.Cause + "\n" + strings.Join(a.Facts, "\n")
	if slices.Contains(healthy, a.State) || a.State == "at rest" {
		if i := slices.IndexFunc(more, func(f finding.Finding) bool { return f.Severity == finding.Broken }); i >= 0 {
			first := more[i]
			a.State = stateWord(first) + " (" + first.Code + ")"
			if a.Cause != first.Message {
				a.Cause = strings.TrimSpace(first.Message + " " + strings.ReplaceAll(a.Cause, "; nothing blocks it",
					""))
			}
			a.Fixes = append(remedies(first.Remedies), a.Fixes...)
			text += "\n" + first.Message
		}
	}
	if slices.ContainsFunc(more, func(f finding.Finding) bool { return f.Severity != finding.Note }) {
		a.Cause = strings.ReplaceAll(a.Cause, "; nothing blocks it", "")
	}
	joined := 0
	for _, f := range more {
		if f.AtRest() && slices.Contains(healthy, a.State) {
			a.Cause = strings.ReplaceAll(a.Cause, "; nothing blocks it", "") + " " + f.Message
			a.Fixes = withoutDoubles(append(a.Fixes, remedies(f.Remedies)...))
		}
		a.scaledBy(f)
		if f.Severity == finding.Note || len(a.also) == maxAlso || saidByState(a, f) {
			continue
		}
		if mended := remedies(f.Remedies); slices.ContainsFunc(mended, selectsMeant) || namesMeant(a, f) {
			a.Fixes = withoutDoubles(append(mended, a.Fixes...)) // what was meant goes before what was written
		} else {
			a.Fixes = withoutDoubles(append(a.Fixes, mended...))
		}
		if !f.Names(text) && !saidAlready(f, text) {
			text += "\n" + f.Message
			if !a.joinsCause(f, &joined) {
				a.also = append(a.also, f)
			}
		}
	}
	a.Fixes = byEffect(a.Fixes)
	repairTogether(&a)
	return a
}
