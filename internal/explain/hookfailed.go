package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// hookError is the reason of containers whose postStart hook failed.
const hookError = "PostStartHookError"

var hookExit = regexp.MustCompile(`exited with (\d+)`)

// hookFailure is what is known of a container's postStart hook that failed a short while ago.
func hookFailure(in In, c container) (words string, failed bool) {
	l := c.spec.Lifecycle
	if l == nil || l.PostStart == nil || c.status == nil || c.status.Ready {
		return "", false
	}
	if on := c.status.Started; c.status.State.Running != nil && on != nil && *on {
		return "", false // the hook of this start is over
	}
	if w := c.waiting(); w != nil && w.Reason == hookError {
		return w.Message, true
	}
	if k, at, ok := newest[journal.Killing](in,
		func(k journal.Killing) bool { return k.Container == c.spec.Name }); ok &&
		strings.Contains(k.Cause, "postStart") && in.Now.Sub(at) < restartWindow {
		return "", true
	}
	i := slices.IndexFunc(in.Events, func(e corev1.Event) bool {
		of := e.InvolvedObject.FieldPath
		return e.Reason == "FailedPostStartHook" && in.Now.Sub(eventTime(&e)) < restartWindow &&
			(of == "" || strings.Contains(of, "{"+c.spec.Name+"}"))
	})
	return "", i >= 0
}

// hookFailed explains a container that is ended because its postStart hook fails.
func hookFailed(in In) *Answer {
	if in.Pod == nil || in.Pod.DeletionTimestamp != nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		if words, failed := hookFailure(in, c); failed {
			f := hookFinding(in, c, words)
			a := &Answer{State: hookError, Cause: f.Message + c.blockedContainers(in), Fixes: remedies(f.Remedies),
				Next: "it is started again, after pauses that grow to 5 minutes"}
			if words != "" {
				a.Facts = []string{"the kubelet's words: " + words}
			}
			return a
		}
	}
	return nil
}

// hookFinding is such a hook as data: its command, or its port, with the exit code.
func hookFinding(in In, c container, words string) finding.Finding {
	h := c.spec.Lifecycle.PostStart
	f := finding.Finding{Code: hookError, Stage: finding.StageRun, Object: in.object(),
		Field: pathOf(in.Pod, c) + ".lifecycle.postStart", Numbers: map[string]string{}}
	f.Message = fmt.Sprintf("The postStart hook of container %s (%s) fails, so the kubelet ends the container.",
		c.spec.Name, hookText(h))
	if m := hookExit.FindStringSubmatch(words); m != nil {
		f.Numbers["exitCode"] = m[1]
	}
	var fixes []Fix
	switch {
	case h.Exec != nil:
		f.Field, f.Value = f.Field+".exec.command", strings.Join(h.Exec.Command, " ")
	case h.HTTPGet != nil:
		f.Field, f.Value = f.Field+".httpGet.port", h.HTTPGet.Port.String()
		if port := onlyPort(c.spec); port != 0 && h.HTTPGet.Port.Type == intstr.Int &&
			h.HTTPGet.Port.IntValue() != port {
			f.Want = strconv.Itoa(port)
			f.Message += fmt.Sprintf(" The container declares port %d alone.", port)
			fixes = append(fixes, editedContainer(in, c.spec.Name, "ask port "+f.Want, func(x *corev1.Container) {
				x.Lifecycle.PostStart.HTTPGet.Port = intstr.FromInt(port)
			}))
		}
		if f.Want == "" && strings.Contains(words, "connection refused") {
			f.Message += " Nothing listened there yet: a hook is run once, right after the container's start, and " +
				"not again as a probe is."
		}
	}
	fixes = append(fixes, editedContainer(in, c.spec.Name,
		"do without the hook: what it prepares is then left to the program itself",
		func(x *corev1.Container) { x.Lifecycle.PostStart = nil }), logsOf(in, c.spec.Name))
	f.Remedies = asRemedies(fixes)
	return f
}

// onlyPort is the one port that a container declares; 0 when it declares none or several.
func onlyPort(c *corev1.Container) int {
	if len(c.Ports) != 1 {
		return 0
	}
	return int(c.Ports[0].ContainerPort)
}

// hookFindings are the postStart hooks of a Pod that fail, as data.
func hookFindings(in In) []finding.Finding {
	var out []finding.Finding
	for _, c := range containers(in.Pod) {
		if words, failed := hookFailure(in, c); failed && in.Pod.DeletionTimestamp == nil {
			out = append(out, hookFinding(in, c, words))
		}
	}
	return out
}
