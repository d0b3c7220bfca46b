package explain

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// shells are programs that end at once, with 0, where they have no script and no input.
var shells = []string{"sh", "bash", "ash", "dash", "zsh", "python", "python3", "node", "irb"}

// shortRun is how long a program runs that has nothing to do.
const shortRun = 2 * time.Second

// shellWithoutInput adds, of a container that ended at once and well, that it has no command, or a
// shell's alone, and no input that a shell could read.
func shellWithoutInput(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) {
	words := slices.Concat(c.spec.Command, c.spec.Args)
	if c.spec.Stdin || t.FinishedAt.Sub(t.StartedAt.Time) > shortRun || len(words) > 1 ||
		len(words) == 1 && !slices.Contains(shells, path.Base(words[0])) {
		return
	}
	at := pathOf(in.Pod, c)
	f := finding.Finding{Code: "NothingToRun", Stage: finding.StageRun, Object: in.object(), Field: at + ".command"}
	why := fmt.Sprintf(" It has neither command nor args, so what the image %s names is run, and ended at once: a "+
		"shell does so where stdin is false.", c.spec.Image)
	if len(words) == 1 {
		f.Value = words[0]
		why = fmt.Sprintf(" It runs %s alone, which ends at once where there is nothing to read (stdin false).",
			words[0])
	}
	a.Cause += why
	fixes := []Fix{{Description: "give it a command that goes on running (command, args)"},
		editedContainer(in, c.spec.Name, "or let its shell wait for input, to attach to it: stdin true",
			func(x *corev1.Container) { x.Stdin = true })}
	a.Fixes = append(a.Fixes, fixes...)
	f.Message, f.Remedies = a.Cause, asRemedies(fixes)
	a.Findings = append(a.Findings, f)
}

// startedByRule adds, of a container that is started again though its Pod's restartPolicy does not
// say so, the rule or policy of its own that does.
func startedByRule(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) {
	if c.status == nil || c.status.RestartCount == 0 || c.init ||
		in.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return
	}
	at := pathOf(in.Pod, c)
	for i, r := range c.spec.RestartPolicyRules {
		x := r.ExitCodes
		if x == nil || slices.Contains(x.Values, t.ExitCode) !=
			(x.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			continue
		}
		a.Cause += fmt.Sprintf(" restartPolicy %s of the Pod would not start it again: %s.restartPolicyRules[%d] does "+
			"(%s, exit codes %s %s).", in.Pod.Spec.RestartPolicy, at, i, r.Action, x.Operator, numbers(x.Values))
		a.Fixes = append([]Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("let exit code %d end it for good: "+
			"without that rule", t.ExitCode), func(y *corev1.Container) {
			y.RestartPolicyRules = slices.Delete(slices.Clone(y.RestartPolicyRules), i, i+1)
			if len(y.RestartPolicyRules) == 0 {
				y.RestartPolicyRules = nil
			}
		})}, a.Fixes...)
		return
	}
	if p := c.spec.RestartPolicy; p != nil && string(*p) != string(in.Pod.Spec.RestartPolicy) {
		a.Cause += fmt.Sprintf(" restartPolicy %s of the Pod would not start it again: its own, %s "+
			"(%s.restartPolicy), does.", in.Pod.Spec.RestartPolicy, *p, at)
	}
}

// numbers lists exit codes.
func numbers(list []int32) string {
	var out []string
	for _, n := range list {
		out = append(out, fmt.Sprint(n))
	}
	return joinList(out)
}

// tellingReasons are warnings that the answer of a row of causes tells already, by row.
var tellingReasons = map[string][]string{"sandbox": {"FailedCreatePodSandBox"}, "hook failed": {"FailedPostStartHook"},
	"volume": {"FailedAttachVolume", "FailedMapVolume"}, "overfull": {"Evicted"}, "ended": {"Evicted"}}

// saidByState reports whether an answer is about what a finding says, in other words: the same
// reason of the same container, or the warning of what its row of causes is about.
func saidByState(a Answer, f finding.Finding) bool {
	if f.Code == "Warning" {
		return slices.Contains(tellingReasons[a.Code], f.Value)
	}
	if f.Code != a.State || !slices.Contains(ofOneContainer, a.Code) {
		return false
	}
	m := containerWords.FindStringSubmatch(f.Message)
	return m != nil && slices.Contains(containersNamed(a.Cause), m[1])
}

// containerWords matches the container that a sentence names.
var containerWords = regexp.MustCompile(`(?i)\bcontainer ([a-z0-9-]+)`)

// containersNamed are the containers that a text names.
func containersNamed(text string) []string {
	var out []string
	for _, m := range containerWords.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}
