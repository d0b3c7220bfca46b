package explain

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// exit says in words how a container ended.
func exit(c container, t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("exit code %d (%s)", t.ExitCode, t.Reason)
	switch {
	case t.Reason == "OOMKilled":
		limit := "no limit of its own"
		if q, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
			limit = "limit " + q.String()
		}
		s += ", it used more memory than it may (" + limit + ")"
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
	logs := do("read its last words", fmt.Sprintf("kubectl -n %s logs %s -c %s --previous", in.Ref.Namespace, in.Ref.Name, c.spec.Name))
	switch {
	case t.Reason == "OOMKilled":
		return []Fix{{Say: "raise the container's memory limit, or make the program use less"}, logs}
	case t.ExitCode == 126, t.ExitCode == 127:
		return []Fix{{Say: "correct command and args of the container"}, logs}
	}
	return []Fix{logs}
}

func crashing(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		t, b := backingOff(in, c)
		if t == nil {
			continue
		}
		a := &Answer{State: "CrashLoopBackOff", Since: t.FinishedAt.Time,
			Cause: fmt.Sprintf("Container %s ends again and again: last with %s.", c.spec.Name, exit(c, t)),
			Facts: []string{fmt.Sprintf("%d restarts; it last ran for %s", c.status.RestartCount, ago(t.FinishedAt.Sub(t.StartedAt.Time)))}}
		if k, ok := killedByProbe(in, c); ok {
			a.Cause = fmt.Sprintf("Container %s is stopped by the kubelet again and again: %s. It last ended with exit code %d.", c.spec.Name, k, t.ExitCode)
			a.Fixes = append(a.Fixes, Fix{Say: "mend what the probe asks for, or give the container longer (startupProbe, failureThreshold, timeoutSeconds)"})
		}
		if b.Until.After(in.Now) {
			a.Next = fmt.Sprintf("it is started again in %s; the pause grows to 5 minutes and ends after 10 minutes of running", ago(b.Until.Sub(in.Now)))
		}
		a.Fixes = append(a.Fixes, exitFixes(in, c, t)...)
		return a
	}
	return nil
}

// backingOff is how a container ended that is started again only later, and what the journal has of its wait. The status says CrashLoopBackOff towards the end
// of the wait; before, it says how the container has ended.
func backingOff(in In, c container) (*corev1.ContainerStateTerminated, journal.BackingOff) {
	b, _, _ := newest[journal.BackingOff](in, func(b journal.BackingOff) bool { return b.Container == c.spec.Name })
	switch w := c.waiting(); {
	case c.status == nil:
		return nil, b
	case w != nil && w.Reason == "CrashLoopBackOff":
		return c.status.LastTerminationState.Terminated, b
	case c.status.State.Terminated != nil && b.What == "CrashLoopBackOff" && b.Until.After(in.Now) && in.Pod.DeletionTimestamp == nil:
		return c.status.State.Terminated, b
	}
	return nil, b
}

// killedByProbe tells whether the kubelet itself ended the container's last run, and why.
func killedByProbe(in In, c container) (string, bool) {
	k, _, ok := newest[journal.Killing](in, func(k journal.Killing) bool { return k.Container == c.spec.Name })
	if !ok || !strings.Contains(k.Cause, "probe") {
		return "", false
	}
	why := k.Cause
	if p, _, ok := newest[journal.Probed](in, func(p journal.Probed) bool {
		return p.Container == c.spec.Name && p.Result == "failure" && p.Probe != "readiness"
	}); ok {
		why += ": " + p.Message
	}
	return why, true
}

func notReady(in In) *Answer {
	p := in.Pod
	if p == nil || p.Spec.NodeName == "" {
		return nil
	}
	if c := condition(p, corev1.PodReady); c != nil && c.Status == corev1.ConditionTrue {
		return nil
	}
	a := &Answer{State: "not Ready"}
	if c := condition(p, corev1.PodReady); c != nil {
		a.Since = c.LastTransitionTime.Time
	}
	for _, c := range containers(p) {
		if c.status == nil || c.init || c.status.Ready {
			continue
		}
		if t := c.status.State.Terminated; t != nil {
			a.Cause = fmt.Sprintf("Container %s has ended with %s.", c.spec.Name, exit(c, t))
			a.Fixes = exitFixes(in, c, t)
			return a
		}
		if pr, at, ok := newest[journal.Probed](in, func(f journal.Probed) bool { return f.Container == c.spec.Name && f.Probe != "liveness" }); ok && pr.Result != "success" {
			a.Cause = fmt.Sprintf("The %s probe of container %s fails: %s.", pr.Probe, c.spec.Name, strings.TrimSuffix(pr.Message, "."))
			a.Facts = []string{fmt.Sprintf("%d failures in a row, the last %s ago", pr.Count, ago(in.Now.Sub(at)))}
			a.Next = "the probe asks again each period; the Pod gets no traffic from Services meanwhile"
			a.Fixes = []Fix{do("compare the probe's port and path with where the program listens", fmt.Sprintf("kubectl -n %s logs %s -c %s", p.Namespace, p.Name, c.spec.Name))}
			return a
		}
		a.Cause = fmt.Sprintf("Container %s runs but is not ready yet: its probe has not succeeded so far.", c.spec.Name)
		return a
	}
	for _, g := range p.Spec.ReadinessGates {
		c := condition(p, g.ConditionType)
		if c == nil || c.Status != corev1.ConditionTrue {
			a.Cause = fmt.Sprintf("All containers are ready; the readiness gate %s is not True: whoever owns that condition has to set it.", g.ConditionType)
			a.Fixes = []Fix{do("set it by hand", fmt.Sprintf(`kubectl -n %s patch pod %s --subresource=status -p '{"status":{"conditions":[{"type":%q,"status":"True"}]}}'`, p.Namespace, p.Name, g.ConditionType))}
			return a
		}
	}
	if c := condition(p, corev1.PodReady); c != nil && c.Message != "" {
		a.Cause = c.Message
		return a
	}
	return nil
}

// ready tells why a healthy Pod is where it is.
func ready(in In) *Answer {
	if in.Pod == nil || in.Pod.Spec.NodeName == "" {
		return nil
	}
	a := &Answer{State: "Ready", Cause: fmt.Sprintf("The Pod runs on %s and is ready; nothing blocks it.", in.Pod.Spec.NodeName)}
	if c := condition(in.Pod, corev1.PodReady); c != nil {
		a.Since = c.LastTransitionTime.Time
	}
	ruled, _, ok := newest[journal.Ruled](in, func(r journal.Ruled) bool { return r.Winner != "" })
	if !ok {
		return a
	}
	if text := won(in, ruled); text != "" {
		a.Cause += " " + text
	}
	a.Facts = append(a.Facts, scoreboard(in, ruled)...)
	a.Fixes = append(a.Fixes, tips(in, ruled)...)
	for _, c := range containers(in.Pod) {
		if c.status != nil && c.status.RestartCount > 0 && c.status.LastTerminationState.Terminated != nil {
			a.Facts = append(a.Facts, fmt.Sprintf("container %s was restarted %d times, last after %s", c.spec.Name, c.status.RestartCount, exit(c, c.status.LastTerminationState.Terminated)))
		}
	}
	return a
}

func scoreboard(in In, r journal.Ruled) []string {
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
		out = append(out, "did not fit: "+phrase(n, in))
	}
	return out
}
