package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// resizeCause is what a kubelet's journal says of a container that it stops for its new size.
const resizeCause = "resize"

// resizeRestart tells of a container whose run was ended for new resources; ok is false where it
// ended for something else. t is the end of that run.
func resizeRestart(in In, c container, t *corev1.ContainerStateTerminated) (f finding.Finding, ok bool) {
	k, at, ok := killing(in, c, t)
	if !ok || k.Cause != resizeCause || at.Before(t.StartedAt.Time) {
		return f, false
	}
	var policies []string
	field := ""
	for i, p := range c.spec.ResizePolicy {
		if p.RestartPolicy != corev1.RestartContainer {
			continue
		}
		policies = append(policies, string(p.ResourceName))
		if field == "" {
			field = fmt.Sprintf("%s.resizePolicy[%d].restartPolicy", pathOf(in.Pod, c), i)
		}
	}
	if field == "" {
		field = pathOf(in.Pod, c) + ".resizePolicy"
	}
	f = finding.Finding{Code: "RestartedForResize", Severity: finding.Note, Stage: finding.StageRun,
		Object: in.object(), Field: field, Value: string(corev1.RestartContainer), Want: string(corev1.NotRequired),
		Numbers: map[string]string{"restarts": fmt.Sprint(c.status.RestartCount), "exitCode": fmt.Sprint(t.ExitCode)}}
	f.Message = fmt.Sprintf("%s was restarted as its resources were changed in place: its resizePolicy for %s is "+
		"RestartContainer (%s), so the kubelet ended its program (exit code %d) and started it with the new "+
		"size%s. It is no failure.", c.title(), joinList(policies), field, t.ExitCode, newSize(in, c, &f))
	if len(policies) > 0 {
		f.Remedies = asRemedies([]Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("let later changes of %s come "+
			"without a restart: resizePolicy NotRequired (the Pod is made anew for it, and the program has to "+
			"notice its new size)",
			joinList(policies)), func(x *corev1.Container) {
			for i := range x.ResizePolicy {
				x.ResizePolicy[i].RestartPolicy = corev1.NotRequired
			}
		})})
	}
	return f, true
}

// newSize is what a container was given by its last resize, as words and as numbers of a finding.
func newSize(in In, c container, f *finding.Finding) string {
	var parts []string
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"requests", c.spec.Resources.Requests}, {"limits", c.spec.Resources.Limits}} {
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := list.of[r]; ok {
				f.Numbers[list.name+"."+string(r)] = q.String()
				parts = append(parts, fmt.Sprintf("%s.%s %s", list.name, r, q.String()))
			}
		}
	}
	if r, _, ok := newest[journal.Resized](in, func(r journal.Resized) bool { return r.Container == c.spec.Name }); ok {
		f.Numbers["to"] = r.To
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// restartedForResize are the containers of a Pod that were restarted a short while ago for their
// new size.
func restartedForResize(in In) []finding.Finding {
	var out []finding.Finding
	for _, c := range containers(in.Pod) {
		if c.status == nil || c.status.State.Running == nil || c.status.LastTerminationState.Terminated == nil {
			continue
		}
		t := c.status.LastTerminationState.Terminated
		if f, ok := resizeRestart(in, c, t); ok && in.Now.Sub(t.FinishedAt.Time) <= restartWindow {
			out = append(out, f)
		}
	}
	return out
}

// withResizes tells of a well Pod whose containers were restarted for their new size.
func withResizes(in In, a *Answer) {
	for _, f := range restartedForResize(in) {
		a.Cause = strings.ReplaceAll(a.Cause, "; nothing blocks it", "") + " " + f.Message
		a.Findings = append(a.Findings, f)
		a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
	}
}

// endedForResize explains the end of a run for which the container's new size is to blame; false
// where it ended for something else.
func endedForResize(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) bool {
	f, ok := resizeRestart(in, c, t)
	if !ok {
		return false
	}
	a.Cause = f.Message
	a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
	return true
}
