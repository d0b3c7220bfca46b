package explain

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// hookText describes what a lifecycle hook does.
func hookText(h *corev1.LifecycleHandler) string {
	switch {
	case h.Exec != nil:
		return "exec " + strings.Join(h.Exec.Command, " ")
	case h.HTTPGet != nil:
		return fmt.Sprintf("GET %s on port %s", h.HTTPGet.Path, h.HTTPGet.Port.String())
	case h.Sleep != nil:
		return fmt.Sprintf("sleep of %d s", h.Sleep.Seconds)
	}
	return "of no known kind"
}

// postStartRunning explains a container whose postStart hook runs: its process runs, but the
// kubelet reports it as started only afterwards.
func postStartRunning(in In) *Answer {
	if in.Pod == nil || in.Pod.DeletionTimestamp != nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		if c.waiting() == nil || c.spec.Lifecycle == nil || c.spec.Lifecycle.PostStart == nil {
			continue
		}
		f, at, ok := newest[journal.ContainerStarted](in,
			func(f journal.ContainerStarted) bool { return f.Container == c.spec.Name })
		if !ok {
			continue
		}
		if e, _, over := newest[journal.ContainerExited](in,
			func(e journal.ContainerExited) bool { return e.ID == f.ID }); over && e.ID != "" {
			continue
		}
		if k, since, killing := newest[journal.Killing](in,
			func(k journal.Killing) bool { return k.Container == c.spec.Name }); killing && since.After(at) &&
			k.Cause != "" {
			continue // the hook has failed
		}
		return &Answer{State: "starting", Since: at, Findings: []finding.Finding{runningHook(in, c, at)},
			Cause: fmt.Sprintf("%s was started, and its postStart hook (%s) still runs, for %s now: the container "+
				"counts as running only when the hook has ended.%s", c.title(), hookText(c.spec.Lifecycle.PostStart),
				ago(in.Now.Sub(at)), c.blockedContainers(in)),
			Next: "a hook has no time limit of its own: the kubelet waits until it ends, and ends the container when " +
				"it fails",
			Fixes: []Fix{editedContainer(in, c.spec.Name,
				"do without the hook: what it prepares is then left to the program itself",
				func(x *corev1.Container) { x.Lifecycle.PostStart = nil }), logsOf(in, c.spec.Name)},
		}
	}
	return nil
}

// statedSleep is how long a command says that it sleeps.
var statedSleep = regexp.MustCompile(`\bsleep\s+(\d{1,9})`)

// runningHook is a postStart hook that runs, as data: how long it does, and how long it says that
// it sleeps. One that takes minutes keeps the container from being ready as long.
func runningHook(in In, c container, since time.Time) finding.Finding {
	h := c.spec.Lifecycle.PostStart
	ran := in.Now.Sub(since)
	f := finding.Finding{Code: "HookRuns", Severity: finding.Note, Stage: finding.StageRun, Object: in.object(),
		Field: pathOf(in.Pod, c) + ".lifecycle.postStart", Value: hookText(h),
		Numbers: map[string]string{"ran": ran.Round(time.Second).String()},
		Message: fmt.Sprintf("The postStart hook of container %s (%s) runs, for %s now: until it has ended the "+
			"container does not count as running.", c.spec.Name, hookText(h), ago(ran))}
	seconds := int64(0)
	switch {
	case h.Exec != nil:
		f.Field, f.Value = f.Field+".exec.command", strings.Join(h.Exec.Command, " ")
		if m := statedSleep.FindStringSubmatch(f.Value); m != nil {
			seconds, _ = strconv.ParseInt(m[1], 10, 64) // nine digits at most
		}
	case h.Sleep != nil:
		f.Field, f.Value, seconds = f.Field+".sleep.seconds", fmt.Sprint(h.Sleep.Seconds), h.Sleep.Seconds
	}
	if seconds > 0 {
		f.Numbers["sleepSeconds"] = fmt.Sprint(seconds)
		f.Message += fmt.Sprintf(" It sleeps for %d s.", seconds)
	}
	if max(ran, time.Duration(seconds)*time.Second) >= slowTime {
		f.Severity = finding.Threat
	}
	f.Remedies = asRemedies([]Fix{editedContainer(in, c.spec.Name,
		"do without the hook: what it prepares is then left to the program itself",
		func(x *corev1.Container) { x.Lifecycle.PostStart = nil })})
	return f
}

// stopStage is how far the stop of a container has come.
type stopStage struct {
	preStop  bool          // its preStop hook runs
	signaled bool          // the stop signal was sent
	since    time.Duration // since the hook started, or the signal was sent
}

// stopStageOf derives the stage from the journal; the zero value if nothing is known.
func stopStageOf(in In, c container) stopStage {
	_, begun, requested := newest[journal.Killing](in,
		func(k journal.Killing) bool { return k.Container == c.spec.Name })
	step, at, ok := newest[journal.StopStep](in, func(s journal.StopStep) bool { return s.Container == c.spec.Name })
	switch {
	case ok && step.Step == "TERM" && (!requested || !at.Before(begun)):
		return stopStage{signaled: true, since: in.Now.Sub(at)}
	case requested && (!ok || at.Before(begun)) && c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil:
		return stopStage{preStop: true, since: in.Now.Sub(begun)}
	}
	return stopStage{}
}

// signal returns the container's stop signal, by default TERM.
func (c container) signal() string {
	if c.status != nil && c.status.StopSignal != nil {
		return strings.TrimPrefix(string(*c.status.StopSignal), "SIG")
	}
	if l := c.spec.Lifecycle; l != nil && l.StopSignal != nil {
		return strings.TrimPrefix(string(*l.StopSignal), "SIG")
	}
	return "TERM"
}

// terminatingContainers describes what the containers of a deleted Pod do, and when they are
// killed.
func terminatingContainers(a *Answer, in In, running []container) {
	grace := int64(pod.DeletionGracePeriod(in.Pod) / time.Second)
	var names, hooks, output []string
	for _, c := range running {
		names = append(names, c.spec.Name)
		switch s := stopStageOf(in, c); {
		case s.preStop:
			hooks = append(hooks, c.spec.Name)
			output = append(output,
				fmt.Sprintf("container %s is in its preStop hook (%s) for %s now and gets %s when it is over",
					c.spec.Name, hookText(c.spec.Lifecycle.PreStop), ago(s.since), c.signal()))
		case s.signaled:
			output = append(output, fmt.Sprintf("container %s was sent %s %s ago and has not ended", c.spec.Name,
				c.signal(), ago(s.since)))
		case c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil:
			a.Facts = append(a.Facts, fmt.Sprintf("container %s has a preStop hook (%s), which runs before it gets %s",
				c.spec.Name, hookText(c.spec.Lifecycle.PreStop), c.signal()))
		}
	}
	a.Cause = fmt.Sprintf("Containers still run: %s. They were asked to stop and have %ds of grace",
		strings.Join(names, ", "), grace)
	if len(output) > 0 {
		a.Cause += ": " + strings.Join(output, "; ")
	}
	a.Cause += "."
	if left := in.Pod.DeletionTimestamp.Sub(in.Now); left > 0 {
		a.Next = fmt.Sprintf("what still runs in %s is killed", ago(left))
		a.Facts = append(a.Facts, fmt.Sprintf("of the grace period of %d s %s are left", grace, ago(left)))
	} else {
		a.Next = fmt.Sprintf("the grace period ended %s ago: the runtime is being asked to kill", ago(-left))
	}
	if len(in.Pod.Finalizers) > 0 {
		a.Facts = append(a.Facts, "finalizers hold the object afterwards: "+strings.Join(in.Pod.Finalizers, ", "))
	}
	if len(hooks) > 0 {
		a.Fixes = textFixes("wait, or make the preStop hook of " + joinList(hooks) +
			" end sooner: the grace period counts from the deletion, so the hook takes from what the process has to " +
			"end in")
	} else {
		a.Fixes = textFixes("wait, or make the process end on " + running[0].signal() +
			" (it is process 1 in its container: a shell does not pass the signal on, unless it starts the program " +
			"with exec)")
	}
	const short = 5
	if grace > short && in.Pod.DeletionTimestamp.Sub(in.Now) > short*time.Second {
		a.Fixes = append(a.Fixes,
			commandFix(fmt.Sprintf("or give it less time: what still runs after %ds is killed, and loses what it has "+
				"not saved", short), fmt.Sprintf("kubectl -n %s delete pod %s --grace-period=%d --wait=false",
				in.Ref.Namespace, in.Ref.Name, short)))
	}
}
