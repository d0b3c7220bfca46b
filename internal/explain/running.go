package explain

import (
	"fmt"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// exitText describes how a container ended.
func exitText(c container, t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("exit code %d (%s)", t.ExitCode, t.Reason)
	switch {
	case t.Reason == "OOMKilled":
		s += ", it used more memory than it may"
		if q, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
			s += " (limit " + q.String() + ")"
		}
	case t.Reason == "ContainerStatusUnknown":
		s += ", which nobody saw: the node was started anew, or its runtime lost the container; the code does not " +
			"say how the program ended"
	case t.ExitCode == 137:
		s += ", killed by SIGKILL"
	case t.ExitCode == 143:
		s += ", ended by SIGTERM"
	case t.ExitCode == 139:
		s += ", a segmentation fault"
	case t.ExitCode == 127:
		s += ", its command was not found"
	case t.ExitCode == 126:
		s += ", its command cannot be executed"
	}
	if msg := strings.TrimSpace(t.Message); msg != "" {
		s += ": " + msg
	}
	return s
}

func exitFixes(in In, c container, t *corev1.ContainerStateTerminated) []Fix {
	run := fmt.Sprintf("kubectl -n %s logs %s -c %s", in.Ref.Namespace, in.Ref.Name, c.spec.Name)
	if c.status == nil || c.status.State.Terminated == nil || c.status.State.Terminated.ContainerID != t.ContainerID {
		run += " --previous" // another one has come after it
	}
	logs := commandFix("read its last words", run)
	switch m := memoryStateOf(in, c, t); {
	case m.oomKilled:
		return append(memoryFixes(in, c, m), logs)
	case t.ExitCode == 126, t.ExitCode == 127:
		return []Fix{{Description: "correct command and args of the container"}, logs}
	}
	return []Fix{logs}
}

func crashLoop(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		t, b := backOffState(in, c)
		if t == nil {
			continue
		}
		a := &Answer{State: "CrashLoopBackOff", Since: t.FinishedAt.Time,
			Facts: []string{fmt.Sprintf("%d restarts; %s", c.status.RestartCount, lastRan(t))}}
		terminationCause(a, in, c, t)
		if b.Until.After(in.Now) {
			a.Next = fmt.Sprintf("it is started again in %s; the pause grows to 5 minutes and ends after 10 minutes "+
				"of running", ago(b.Until.Sub(in.Now)))
		}
		return a
	}
	return nil
}

// terminationCause adds the cause of a run's end: a probe, memory, or the program itself.
func terminationCause(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) {
	again := ""
	if c.status.RestartCount > 1 {
		again = " again and again: last"
	}
	m := memoryStateOf(in, c, t)
	k := killedByProbe(in, c, t)
	switch {
	case m.oomKilled:
		a.Cause = fmt.Sprintf("%s ends%s: %s.%s", c.title(), again, oomText(in, c, t, m), c.blockedContainers(in))
		a.Facts = append(a.Facts, memoryText(in, c)...)
	case k.known:
		killedByProbeCause(a, in, c, k)
	case endedForResize(a, in, c, t):
		return
	case neverStarted(t) && strings.Contains(strings.ToLower(t.Message), oomAtStartWords):
		a.Cause = oomAtStart(in, c)
		a.Facts = append(a.Facts, runtimesWords(t.Message)...)
		a.Fixes = append(a.Fixes, memoryFixes(in, c, m)...)
		return
	case neverStarted(t):
		words := strings.TrimSuffix(strings.TrimSpace(plainWords(t.Message)), ".")
		a.Facts = append(a.Facts, runtimesWords(t.Message)...)
		a.Cause = fmt.Sprintf("%s cannot be started: %s.%s%s", c.title(), words,
			startRefusedText(in, c, words), c.blockedContainers(in))
		a.Fixes = append(a.Fixes, programFixes(in, c, t.Message)...)
		return
	case t.ExitCode == 0 && !c.init && in.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways:
		a.Cause = fmt.Sprintf("%s ends%s with %s: its program says that all went well, and restartPolicy Always "+
			"starts it anew. A program that ends is for a Job, or for "+
			"restartPolicy OnFailure or Never.", c.title(), again,
			exitText(c, t))
		lastLogs(a, in, c)
		shellWithoutInput(a, in, c, t)
		if whatif.OwnerOf(in.Pod).Kind == "" && !c.init {
			a.Fixes = append(a.Fixes, editedPodFix(in, "if it has done its work then, let it end so: restartPolicy "+
				"OnFailure", func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyOnFailure }))
		}
		a.Fixes = append(a.Fixes, Fix{Description: "let the program stay in the foreground, or, if it has done " +
			"its work, run it as a Job"})
	default:
		a.Cause = fmt.Sprintf("%s ends%s with %s.%s", c.title(), again, exitText(c, t), c.blockedContainers(in))
		if t.ExitCode == 137 {
			a.Facts = append(a.Facts, memoryText(in, c)...)
		}
		causeInLogs(a, in, c, t)
		startedByRule(a, in, c, t)
		ownPolicyNever(a, in, c)
	}
	a.Fixes = append(a.Fixes, exitFixes(in, c, t)...)
}

// ownPolicyNever adds that a container's own restartPolicy lets nobody start it again, though the
// Pod's would.
func ownPolicyNever(a *Answer, in In, c container) {
	never := corev1.ContainerRestartPolicyNever
	if p := c.spec.RestartPolicy; p == nil || *p != never || in.Pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return
	}
	at := pathOf(in.Pod, c) + ".restartPolicy"
	a.Cause += fmt.Sprintf(" Its own restartPolicy is Never (%s): it is not started again, and the Pod is not ready "+
		"without it.", at)
	always := corev1.ContainerRestartPolicyAlways
	f := finding.Finding{Code: "ContainerExited", Stage: finding.StageRun, Object: in.object(), Field: at,
		Value: "Never",
		Want:  "Always", Message: fmt.Sprintf("%s has ended, and its own restartPolicy is Never (%s).", c.title(), at),
		Remedies: asRemedies([]Fix{editedContainer(in, c.spec.Name, "let it be started again: restartPolicy Always",
			func(x *corev1.Container) { x.RestartPolicy = &always })})}
	a.Findings = append(a.Findings, f)
	a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
}

// neverStarted reports whether the runtime could not start a container's program.
func neverStarted(t *corev1.ContainerStateTerminated) bool {
	return (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") && strings.TrimSpace(t.Message) != ""
}

// forbiddenBySpec adds what of a container's own spec its last output tells of; true when there is
// such a thing.
func forbiddenBySpec(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) bool {
	r, ok := deniedBy(in, c, pathOf(in.Pod, c), lastOutput(in, c, t))
	if ok {
		a.Cause += " " + r.text
		a.Fixes = append(r.fixes, a.Fixes...)
	}
	return ok
}

// leastWell is how long a container has to run until its start counts as a good one.
const leastWell = 5 * time.Second

// restartWindow is how long a restarted container's last end is worth explaining.
const restartWindow = 10 * time.Minute

// stopping explains why the kubelet stops a container of a Pod that stays: it is started anew.
func stopping(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		k := stoppedByProbe(in, c)
		if !k.known {
			continue
		}
		a := &Answer{State: "restarting", Since: k.asked}
		if n := c.status.RestartCount; n > 0 {
			a.Facts = append(a.Facts, fmt.Sprintf("%d restarts so far", n))
		}
		killedByProbeCause(a, in, c, k)
		a.Next = "when it has ended it is started again, after pauses that grow to 5 minutes"
		return a
	}
	return nil
}

// restarted explains why a running container was restarted a short while ago.
func restarted(in In) *Answer {
	if in.Pod == nil || in.Pod.DeletionTimestamp != nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		if c.status == nil || c.status.State.Running == nil || c.status.RestartCount == 0 ||
			c.status.LastTerminationState.Terminated == nil {
			continue
		}
		t := c.status.LastTerminationState.Terminated
		if runsWellSince(in, c) || in.Now.Sub(t.FinishedAt.Time) > restartWindow || t.ExitCode == 0 &&
			!killedByProbe(in, c, t).known {
			continue
		}
		a := &Answer{State: "restarting", Since: t.FinishedAt.Time,
			Facts: []string{fmt.Sprintf("%d restarts; the run before lasted %s, and it has run again for %s",
				c.status.RestartCount, ago(t.FinishedAt.Sub(t.StartedAt.Time)),
				ago(in.Now.Sub(c.status.State.Running.StartedAt.Time)))}}
		terminationCause(a, in, c, t)
		a.Next = "the container runs; when it ends again it is started again, after pauses that grow to 5 minutes"
		return a
	}
	return nil
}

// backOffState returns how a container ended that is restarted later, and the journal's BackingOff.
// The status has CrashLoopBackOff only towards the end of the wait, and the termination before.
func backOffState(in In, c container) (*corev1.ContainerStateTerminated, journal.BackingOff) {
	b, _, _ := newest[journal.BackingOff](in, func(b journal.BackingOff) bool { return b.Container == c.spec.Name })
	switch w := c.waiting(); {
	case c.status == nil:
		return nil, b
	case w != nil && w.Reason == "CrashLoopBackOff":
		return c.status.LastTerminationState.Terminated, b
	case c.status.State.Terminated != nil && b.What == "CrashLoopBackOff" && b.Until.After(in.Now) &&
		in.Pod.DeletionTimestamp == nil:
		return c.status.State.Terminated, b
	}
	return nil, b
}

// recentFailure is how long a failed liveness probe is told of a container that still counts as
// ready.
const recentFailure = 30 * time.Second

// livenessFailing says which ready container has failed its liveness probe in its present run a
// short while ago, a sentence with a space before it; empty where none has.
func livenessFailing(in In) string {
	for _, c := range containers(in.Pod) {
		p := c.spec.LivenessProbe
		if p == nil || c.status == nil || c.status.State.Running == nil {
			continue
		}
		f, at, ok := newest[journal.Probed](in, func(f journal.Probed) bool {
			return f.Container == c.spec.Name && f.Probe == "liveness"
		})
		if !ok || f.Result != "failure" || at.Before(c.status.State.Running.StartedAt.Time) ||
			in.Now.Sub(at) > max(recentFailure, secondsOf(int64(2*p.PeriodSeconds))) {
			continue
		}
		return fmt.Sprintf(" But the liveness probe of container %s failed %s ago: %s. After %d failures in a row the "+
			"kubelet ends the container.", c.spec.Name, ago(in.Now.Sub(at)), strings.TrimSuffix(f.Message, "."),
			p.FailureThreshold)
	}
	return ""
}

// ready explains why a healthy Pod is on its node.
func ready(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName == "" {
		return nil
	}
	a := &Answer{State: "Ready", Cause: fmt.Sprintf("The Pod runs on %s and is ready; nothing blocks it.",
		in.Pod.Spec.NodeName)}
	if c := pod.Condition(in.Pod, corev1.PodReady); c != nil {
		a.Since = c.LastTransitionTime.Time
	}
	withStart(in, a)
	if text := livenessFailing(in); text != "" {
		a.Cause = strings.ReplaceAll(a.Cause, "; nothing blocks it", "") + text
	}
	withResizes(in, a)
	result, _, ok := newest[journal.Ruled](in, func(r journal.Ruled) bool { return r.Winner != "" })
	if !ok || len(result.Scores) < 2 && len(result.Refusals) == 0 {
		return a
	}
	if text := whyChosen(in, result); text != "" {
		a.Cause += " " + text
	}
	a.Facts = append(a.Facts, scoreTable(in, result)...)
	a.Facts = append(a.Facts, nodesNotScored(result)...)
	a.Fixes = append(a.Fixes, weightFixes(in, result)...)
	for _, c := range containers(in.Pod) {
		if c.status != nil && c.status.RestartCount > 0 && c.status.LastTerminationState.Terminated != nil {
			a.Facts = append(a.Facts, fmt.Sprintf("container %s was restarted %d times, last after %s", c.spec.Name,
				c.status.RestartCount, exitText(c, c.status.LastTerminationState.Terminated)))
		}
	}
	return a
}

func scoreTable(in In, r journal.Ruled) []string {
	scores := append([]journal.NodeScore(nil), r.Scores...)
	sort.SliceStable(scores, func(i, j int) bool { return scores[i].Total > scores[j].Total })
	var out []string
	for i, n := range scores {
		if i == 5 {
			out = append(out, fmt.Sprintf("and %d more nodes that fit", len(scores)-5))
			break
		}
		var parts []string
		for _, p := range n.Parts {
			parts = append(parts, fmt.Sprintf("%s=%d", p.Plugin, p.Weighted))
		}
		mark := ""
		if n.Node == r.Winner {
			mark = " (chosen)"
		}
		out = append(out, fmt.Sprintf("%s%s: score %d: %s", n.Node, mark, n.Total, strings.Join(parts, " ")))
	}
	for i, n := range r.Refusals {
		if i == 5 {
			out = append(out, fmt.Sprintf("and %d more nodes that do not fit", len(r.Refusals)-5))
			break
		}
		out = append(out, "did not fit: "+refusalText(n, in))
	}
	return out
}
