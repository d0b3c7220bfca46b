package explain

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// independent are codes of findings about one field each, such as one that names what is not
// there: each hinders its object whatever else is mended.
var independent = []string{"ReferenceMissing", "KeyMissing", "SubPathMissing", "NodeLabelMissing", "ErrImagePull",
	"ImagePullBackOff", "InvalidImageName", "SchedulingGated", "FinalizerHolds", "PortMissing", "MountOptionRefused",
	"BudgetNeverAllows", "DrainHeld", "SelectsNothing", "ProbeFails", "CreateContainerConfigError",
	"CreateContainerError", "RunContainerError", "Restricted", "QuotaExceeded"}

// isIndependent reports whether a finding hinders its object whatever else is mended: by its code,
// or as the program of a container cannot be started.
func isIndependent(f finding.Finding) bool {
	return slices.Contains(independent, f.Code) || f.Code == "ContainerExited" && strings.Contains(f.Field, ".command")
}

// readsOnly matches a command that changes nothing.
var readsOnly = regexp.MustCompile(
	`^(?:kubectl(?: -n \S+)? (?:get|describe|logs|exec|auth|explain|top|events)\b[^|]*$|gantry )`)

// mends reports whether a remedy has commands and one of them changes something.
func mends(r finding.Remedy) bool {
	return r.See == nil && slices.ContainsFunc(r.Run, func(line string) bool { return !readsOnly.MatchString(line) })
}

// mostTogether bounds the troubles that one remedy mends.
const mostTogether = 4

// repairTogether puts a remedy first that mends every field of an object that names what is not
// there, or that hinders it in another way of its own, where there are several: one of them alone
// does not let it start. None where one of them has no command.
func repairTogether(a *Answer) {
	var says, runs []string
	seen := map[string]bool{}
	for _, f := range a.Findings {
		at := f.Object.String() + " " + f.Field
		if f.Severity != finding.Broken || !isIndependent(f) || seen[at] ||
			f.Code == "NodeLabelMissing" && !strings.Contains(f.Field, "nodeSelector") {
			continue
		}
		seen[at] = true
		i := slices.IndexFunc(f.Remedies, func(r finding.Remedy) bool { return mends(r) })
		if i < 0 || len(says) == mostTogether {
			return
		}
		if slices.Contains(says, f.Remedies[i].Say) {
			continue
		}
		says, runs = append(says, f.Remedies[i].Say), append(runs, f.Remedies[i].Run...)
	}
	if len(says) > 1 {
		a.Fixes = append([]Fix{{Description: "mend all of it: " + strings.Join(says, "; "), Run: runs}}, a.Fixes...)
	}
}

// mostJoined bounds the further troubles that the cause tells, and longestJoined their length: the
// rest is told below it.
const (
	mostJoined    = 2
	longestJoined = 500
)

// joinsCause tells a further trouble in the cause: what is broken beside it hinders the object as
// well, and of an object that is well the first threat is what somebody asks for. False where it is
// told below the cause.
func (a *Answer) joinsCause(f finding.Finding, joined *int) bool {
	well := slices.Contains(healthy, a.State)
	if *joined == mostJoined || len(f.Message) > longestJoined || f.Severity != finding.Broken && !(well &&
		*joined == 0) {
		return false
	}
	*joined++
	a.Cause = strings.TrimSpace(a.Cause)
	if !strings.HasSuffix(a.Cause, ".") {
		a.Cause += "."
	}
	a.Cause += " " + f.Message
	return true
}

// variableReference is a reference to a variable, as a container's command and variables have them.
var variableReference = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// whereItStands says, with a space before it, which variable of a container has a reference that
// was not replaced; empty where none has.
func whereItStands(c container, host string) string {
	ref := variableReference.FindString(host)
	for _, e := range c.spec.Env {
		if ref != "" && strings.Contains(e.Value, ref) {
			return " It stands in the value of variable " + e.Name + "; variables are replaced in the order of the " +
				"list."
		}
	}
	return ""
}

// besideContainer lets findings about containers say as much as an answer about each of them alone
// would, where the answer is about another container of the Pod.
func besideContainer(in In, a Answer, list []finding.Finding) []finding.Finding {
	if !slices.Contains(ofOneContainer, a.Code) {
		return list
	}
	for i := range list {
		f := &list[i]
		if f.Severity != finding.Broken || f.Code != "ContainerExited" && !slices.Contains(imageReasons, f.Code) &&
			!slices.Contains(configReasons, f.Code) {
			continue
		}
		for _, c := range containers(in.Pod) {
			if at := pathOf(in.Pod, c); f.Field != at && !strings.HasPrefix(f.Field, at+".") {
				continue
			}
			if cause := containerAnswer(in, c, lastEnd(c)).Cause; cause != "" && !strings.HasPrefix(a.Cause, cause) {
				f.Message = cause
			}
		}
	}
	return list
}

// lastEnd is how the run of a container ended that made it wait or end; nil when it runs.
func lastEnd(c container) *corev1.ContainerStateTerminated {
	if w := c.waiting(); w != nil && w.Reason == "CrashLoopBackOff" {
		return c.status.LastTerminationState.Terminated
	}
	return c.status.State.Terminated
}
