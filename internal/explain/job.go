package explain

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
)

// templateOf returns the template of the Pods that an object makes itself: a CronJob makes Jobs.
func templateOf(o runtime.Object) *corev1.PodTemplateSpec {
	if _, ok := o.(*batchv1.CronJob); ok {
		return nil
	}
	return workload.Template(o)
}

func (s Subject) job(a *Answer, j *batchv1.Job) {
	a.State = "running"
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			a.State, a.Since, a.Cause = "Complete", c.LastTransitionTime.Time, "The Job has done what it should."
			if j.Spec.SuccessPolicy != nil && j.Status.Succeeded < completions(j) {
				a.Cause += fmt.Sprintf(" A rule of its successPolicy was met with %d of %d completions (indexes "+
					"%s): the rest was ended.", j.Status.Succeeded, completions(j), j.Status.CompletedIndexes)
			}
			return
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			a.State, a.Since = "Failed", c.LastTransitionTime.Time
			a.Cause = fmt.Sprintf("The Job failed (%s): %s.", c.Reason, strings.TrimSuffix(c.Message, "."))
			if n := j.Status.FailedIndexes; n != nil && *n != "" {
				a.Cause += fmt.Sprintf(" The failed indexes are %s of %d.", *n, completions(j))
				if done := j.Status.CompletedIndexes; done != "" {
					a.Cause += fmt.Sprintf(" Those that completed are %s.", done)
				}
			}
			if !s.endedBeforePlacing(a, j, c) {
				s.failures(a, j)
			}
			return
		case batchv1.JobSuspended:
			a.State, a.Since, a.Cause = "suspended", c.LastTransitionTime.Time,
				"The Job is suspended: it has no Pods until somebody lets it go on."
			a.Fixes = []Fix{
				commandFix("let it go on",
					fmt.Sprintf(`kubectl -n %s patch job %s --type=merge -p '{"spec":{"suspend":false}}'`, s.Namespace,
						s.Name))}
			return
		}
	}
	if s.failuresIgnored(a, j) {
		return
	}
	switch {
	case s.WorstPod != nil && s.WorstPod.Pod != nil:
		w := Why(*s.WorstPod)
		a.Since, a.Next = w.Since, w.Next
		a.Cause = fmt.Sprintf("%d of its Pods succeeded, %d failed (backoffLimit %d). Pod %s is %s: %s",
			j.Status.Succeeded, j.Status.Failed, backoffLimit(j.Spec.BackoffLimit), s.WorstPod.Ref.Name, w.State,
			w.Cause)
		a.Facts, a.Fixes = append(a.Facts, w.Facts...), append(w.Fixes, s.fewerAtOnce(j, w)...)
	case len(s.Pods) == 0:
		if e := s.newestEvent("FailedCreate"); e != nil {
			a.State = withoutPods
			s.podsRefused(a, e.Message, &j.Spec.Template)
			return
		}
		a.Cause = "It has no Pods yet."
	default:
		a.Cause = fmt.Sprintf("Its Pods run: %d at work, %d succeeded, %d failed.", j.Status.Active, j.Status.Succeeded,
			j.Status.Failed)
	}
}

// fewerAtOnce lets a Job run as many Pods at once as have a node, where others of it find none:
// those follow when these have ended.
func (s Subject) fewerAtOnce(j *batchv1.Job, w Answer) []Fix {
	placed := 0
	for _, p := range s.Pods {
		if p.Spec.NodeName != "" && pod.IsActive(p) {
			placed++
		}
	}
	if w.Code != "unscheduled" || placed == 0 || j.Spec.Parallelism == nil || int(*j.Spec.Parallelism) <= placed {
		return nil
	}
	return []Fix{commandFix(fmt.Sprintf("let it run as many Pods at once as have a node, %d: the others come when "+
		"these "+
		"have ended", placed), fmt.Sprintf(`kubectl -n %s patch job %s --type=merge -p '{"spec":{"parallelism":%d}}'`,
		s.Namespace, s.Name, placed))}
}

// completions returns how many indexes a Job has.
func completions(j *batchv1.Job) int32 {
	if j.Spec.Completions == nil {
		return 1
	}
	return *j.Spec.Completions
}

// backoffLimit returns a Job's backoffLimit, by default 6.
func backoffLimit(n *int32) int32 {
	if n == nil {
		return 6
	}
	return *n
}

// failures adds how its Pods ended.
func (s Subject) failures(a *Answer, j *batchv1.Job) {
	if s.WorstPod == nil {
		return
	}
	w := Why(*s.WorstPod)
	a.Cause += fmt.Sprintf(" Pod %s is %s: %s", s.WorstPod.Ref.Name, w.State, w.Cause)
	limit := fmt.Sprintf("backoffLimit %d", backoffLimit(j.Spec.BackoffLimit))
	if n := j.Spec.BackoffLimitPerIndex; n != nil {
		limit = fmt.Sprintf("backoffLimitPerIndex %d", *n)
	}
	a.Facts = append(append(a.Facts, fmt.Sprintf("%d failed, %s", j.Status.Failed, limit)), w.Facts...)
	a.Fixes = append(a.Fixes, w.Fixes...)
}

// failuresIgnored explains a Job whose failure policy ignores how its Pods fail, so that it never
// ends.
func (s Subject) failuresIgnored(a *Answer, j *batchv1.Job) bool {
	if j.Spec.PodFailurePolicy == nil {
		return false
	}
	count := map[int]int{}
	var example [2]string // Pod and container
	var how *corev1.ContainerStateTerminated
	var failing container
	for _, p := range s.Pods {
		if p.Status.Phase != corev1.PodFailed {
			continue
		}
		for i, r := range j.Spec.PodFailurePolicy.Rules {
			c, t, ok := matchesFailureRule(r, p)
			if !ok {
				continue
			}
			if count[i]++; r.Action == batchv1.PodFailurePolicyActionIgnore && t != nil {
				how, failing, example = t, c, [2]string{p.Name, c.spec.Name}
			}
			break
		}
	}
	for i, r := range j.Spec.PodFailurePolicy.Rules {
		if r.Action != batchv1.PodFailurePolicyActionIgnore || count[i] < 2 || how == nil || r.OnExitCodes == nil {
			continue
		}
		limit := backoffLimit(j.Spec.BackoffLimit)
		why := fmt.Sprintf("exit code %d (%s)", how.ExitCode, how.Reason)
		if s.WorstPod != nil {
			if m := memoryStateOf(*s.WorstPod, failing, how); m.oomKilled {
				why = fmt.Sprintf("exit code %d, the kernel killed it for memory (%s), limit %s", how.ExitCode,
					how.Reason, mib(m.limit))
				a.Fixes = append(a.Fixes, memoryFixes(*s.WorstPod, failing, m)...)
			}
		}
		a.State = "going on for ever"
		a.Cause = fmt.Sprintf("The Job never ends: each Pod fails (container %s of %s: %s), and rule %d of its "+
			"podFailurePolicy says Ignore to exit code %s, so these failures do not count and backoffLimit %d is "+
			"never used up: %d failed Pods are there, %d count. A new Pod follows each.",
			example[1], example[0], why, i, exitCodesText(r), limit, count[i], j.Status.Failed)
		a.Next = "another Pod is made, with growing pauses, for ever"
		a.Fixes = append(a.Fixes,
			commandFix("or ignore disruptions only: then these failures count, and the Job fails when there are more "+
				"than backoffLimit", whatif.RecreateJob(s.Namespace, s.Name,
				`"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget",`+
					`"status":"True"}]}]}`)))
		return true
	}
	return false
}

func exitCodesText(r batchv1.PodFailurePolicyRule) string {
	var out []string
	for _, v := range r.OnExitCodes.Values {
		out = append(out, fmt.Sprint(v))
	}
	if r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn {
		return "other than " + joinList(out)
	}
	return joinList(out)
}

// matchesFailureRule reports whether a failed Pod matches a rule, and by which container.
func matchesFailureRule(r batchv1.PodFailurePolicyRule,
	p *corev1.Pod) (c container, t *corev1.ContainerStateTerminated, ok bool) {
	if r.OnExitCodes == nil {
		for _, want := range r.OnPodConditions {
			if have := pod.Condition(p, want.Type); have != nil && have.Status == want.Status {
				return c, nil, true
			}
		}
		return c, nil, false
	}
	for _, c := range containers(p) {
		if c.status == nil || c.status.State.Terminated == nil ||
			r.OnExitCodes.ContainerName != nil && *r.OnExitCodes.ContainerName != c.spec.Name {
			continue
		}
		t := c.status.State.Terminated
		in := slices.Contains(r.OnExitCodes.Values, t.ExitCode)
		if t.ExitCode != 0 && in == (r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
			return c, t, true
		}
	}
	return c, nil, false
}
