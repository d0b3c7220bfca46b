package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// verdict is that a Job is to end, and why.
type verdict struct {
	interim batchv1.JobConditionType // FailureTarget or SuccessCriteriaMet
	reason  string
	message string
}

// judge tells whether the Job has reached its end: a verdict passed earlier stands.
func (t *tally) judge() *verdict {
	for _, c := range t.s.Conditions {
		if (c.Type == batchv1.JobFailureTarget || c.Type == batchv1.JobSuccessCriteriaMet) && c.Status == corev1.ConditionTrue {
			return &verdict{c.Type, c.Reason, c.Message}
		}
	}
	fail := func(reason, message string) *verdict { return &verdict{batchv1.JobFailureTarget, reason, message} }
	for _, p := range t.ended {
		if p.Status.Phase == corev1.PodFailed && rule(t.Job, p) == batchv1.PodFailurePolicyActionFailJob {
			return fail(batchv1.JobReasonPodFailurePolicy, policyMessage(t.Job, p))
		}
	}
	if v := t.successPolicy(); v != nil {
		return v
	}
	limit := int32(6)
	if t.Job.Spec.BackoffLimit != nil {
		limit = *t.Job.Spec.BackoffLimit
	}
	switch {
	case t.failed > limit || t.restartsReached(limit):
		return fail(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case t.deadlinePassed():
		return fail(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	case t.Job.Spec.MaxFailedIndexes != nil && len(t.failedIndexes) > int(*t.Job.Spec.MaxFailedIndexes):
		return fail(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case len(t.failedIndexes) > 0 && len(t.failedIndexes)+len(t.done) >= completions(t.Job):
		return fail(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	case t.complete():
		return &verdict{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"}
	}
	return nil
}

func (t *tally) complete() bool {
	if t.Job.Spec.Completions == nil {
		return t.succeeded > 0 && len(t.live) == 0
	}
	return t.succeeded >= *t.Job.Spec.Completions
}

// restartsReached counts container restarts where Pods restart in place: they use up the limit like failed Pods.
func (t *tally) restartsReached(limit int32) bool {
	if t.Job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var n int32
	for _, p := range t.live {
		for _, c := range append(append([]corev1.ContainerStatus(nil), p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...) {
			n += c.RestartCount
		}
	}
	return n > 0 && n >= limit
}

func (t *tally) deadlinePassed() bool {
	d := t.Job.Spec.ActiveDeadlineSeconds
	suspended := t.Job.Spec.Suspend != nil && *t.Job.Spec.Suspend
	return d != nil && t.s.StartTime != nil && !suspended && t.Now.Sub(t.s.StartTime.Time) >= time.Duration(*d)*time.Second
}

// deadline is the time left to it.
func (t *tally) deadline() time.Duration {
	d := t.Job.Spec.ActiveDeadlineSeconds
	if d == nil || t.s.StartTime == nil {
		return 0
	}
	return max(0, t.s.StartTime.Add(time.Duration(*d)*time.Second).Sub(t.Now))
}

func (t *tally) successPolicy() *verdict {
	if t.Job.Spec.SuccessPolicy == nil || !indexed(t.Job) {
		return nil
	}
	for i, r := range t.Job.Spec.SuccessPolicy.Rules {
		among := t.done
		if r.SucceededIndexes != nil {
			among = Indexes{}
			for x := range ParseIndexes(*r.SucceededIndexes, completions(t.Job)) {
				if t.done[x] {
					among[x] = true
				}
			}
		}
		need := 0
		if r.SucceededCount != nil {
			need = int(*r.SucceededCount)
		} else if r.SucceededIndexes != nil {
			need = len(ParseIndexes(*r.SucceededIndexes, completions(t.Job)))
		}
		if need > 0 && len(among) >= need {
			return &verdict{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, fmt.Sprintf("Matched rules at index %d", i)}
		}
	}
	return nil
}

// mark writes the interim condition.
func (t *tally) mark(v verdict) {
	if find(t.s.Conditions, v.interim) == nil {
		t.s.Conditions = append(t.s.Conditions, t.condition(v.interim, v.reason, v.message))
	}
}

func (t *tally) condition(typ batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	now := metav1.NewTime(t.Now)
	return batchv1.JobCondition{Type: typ, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now}
}

func find(cs []batchv1.JobCondition, typ batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range cs {
		if cs[i].Type == typ {
			return &cs[i]
		}
	}
	return nil
}

// dying moves the Pods that are about to be deleted to the ending ones; when the Job has failed they count as failed.
func (t *tally) dying(p *Plan, ends bool) {
	if len(p.Delete) == 0 {
		return
	}
	gone := map[string]bool{}
	for _, x := range p.Delete {
		gone[string(x.UID)] = true
	}
	t.live = slices.DeleteFunc(slices.Clone(t.live), func(x *corev1.Pod) bool { return gone[string(x.UID)] })
	t.ending = append(t.ending, p.Delete...)
	if failed := find(t.s.Conditions, batchv1.JobFailureTarget); ends && failed != nil && !onlyFailed(t.Job) {
		for _, x := range p.Delete {
			if tracked(x) {
				t.uncountedBad[x.UID] = true
			}
		}
	}
	t.writeCounts()
}

// finish writes the last condition when every Pod has ended and is counted.
func (t *tally) finish(p *Plan) {
	if len(t.live) > 0 || len(t.ending) > 0 || len(t.uncountedOK) > 0 || len(t.uncountedBad) > 0 {
		return
	}
	for _, x := range t.ended {
		if tracked(x) && !indexed(t.Job) {
			return
		}
	}
	var last batchv1.JobCondition
	if c := find(t.s.Conditions, batchv1.JobFailureTarget); c != nil {
		last = t.condition(batchv1.JobFailed, c.Reason, c.Message)
	} else if c := find(t.s.Conditions, batchv1.JobSuccessCriteriaMet); c != nil {
		last = t.condition(batchv1.JobComplete, c.Reason, c.Message)
		now := metav1.NewTime(t.Now)
		t.s.CompletionTime = &now
	} else {
		return
	}
	t.s.Conditions = append(t.s.Conditions, last)
	p.Say = append(p.Say, last)
}

// suspension keeps the Suspended condition and the start time.
func (t *tally) suspension(suspended bool, p *Plan) {
	have := find(t.s.Conditions, batchv1.JobSuspended)
	now := metav1.NewTime(t.Now)
	switch {
	case suspended && (have == nil || have.Status != corev1.ConditionTrue):
		c := t.condition(batchv1.JobSuspended, "JobSuspended", "Job suspended")
		t.put(have, c)
		t.s.StartTime = nil
		p.Say = append(p.Say, c)
	case !suspended && have != nil && have.Status == corev1.ConditionTrue:
		c := t.condition(batchv1.JobSuspended, "JobResumed", "Job resumed")
		c.Status = corev1.ConditionFalse
		t.put(have, c)
		t.s.StartTime = &now
		p.Say = append(p.Say, c)
	}
}

func (t *tally) put(have *batchv1.JobCondition, c batchv1.JobCondition) {
	if have != nil {
		*have = c
		return
	}
	t.s.Conditions = append(t.s.Conditions, c)
}

// rule is what the Pod failure policy says about a failed Pod: empty without a policy, Count when no rule matches.
func rule(j *batchv1.Job, p *corev1.Pod) batchv1.PodFailurePolicyAction {
	action, _, _ := match(j, p)
	return action
}

func match(j *batchv1.Job, p *corev1.Pod) (batchv1.PodFailurePolicyAction, int, string) {
	if j.Spec.PodFailurePolicy == nil || p.Status.Phase != corev1.PodFailed {
		return "", -1, ""
	}
	for i, r := range j.Spec.PodFailurePolicy.Rules {
		if r.OnExitCodes != nil {
			if name, code, ok := exitMatches(r.OnExitCodes, p); ok {
				return r.Action, i, fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v matching %v rule at index %d", name, p.Namespace, p.Name, code, r.Action, i)
			}
		}
		for _, want := range r.OnPodConditions {
			for _, c := range p.Status.Conditions {
				if c.Type == want.Type && c.Status == want.Status {
					return r.Action, i, fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d", p.Namespace, p.Name, c.Type, r.Action, i)
				}
			}
		}
	}
	return batchv1.PodFailurePolicyActionCount, -1, ""
}

func exitMatches(r *batchv1.PodFailurePolicyOnExitCodesRequirement, p *corev1.Pod) (string, int32, bool) {
	all := append(append([]corev1.ContainerStatus(nil), p.Status.ContainerStatuses...), p.Status.InitContainerStatuses...)
	for _, c := range all {
		t := c.State.Terminated
		if t == nil || t.ExitCode == 0 || r.ContainerName != nil && *r.ContainerName != c.Name {
			continue
		}
		if in := slices.Contains(r.Values, t.ExitCode); in == (r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
			return c.Name, t.ExitCode, true
		}
	}
	return "", 0, false
}

func policyMessage(j *batchv1.Job, p *corev1.Pod) string {
	_, _, message := match(j, p)
	return message
}
