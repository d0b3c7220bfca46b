package job

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finishedCondition is the condition with which a Job will finish.
type finishedCondition struct {
	interim batchv1.JobConditionType // FailureTarget or SuccessCriteriaMet
	reason  string
	message string
}

// evaluateFinished returns the condition with which the Job finishes, nil if it goes on. An interim
// condition set earlier stands.
func (t *syncJobContext) evaluateFinished() *finishedCondition {
	for _, c := range t.status.Conditions {
		if (c.Type == batchv1.JobFailureTarget || c.Type == batchv1.JobSuccessCriteriaMet) &&
			c.Status == corev1.ConditionTrue {
			return &finishedCondition{c.Type, c.Reason, c.Message}
		}
	}
	fail := func(reason, message string) *finishedCondition {
		return &finishedCondition{batchv1.JobFailureTarget, reason, message}
	}
	for _, p := range t.finished {
		if p.Status.Phase == corev1.PodFailed && podFailureAction(t.Job, p) == batchv1.PodFailurePolicyActionFailJob {
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
		return fail(batchv1.JobReasonMaxFailedIndexesExceeded,
			"Job has exceeded the specified maximal number of failed indexes")
	case len(t.failedIndexes) > 0 && len(t.failedIndexes)+len(t.succeededIndexes) >= completions(t.Job):
		return fail(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	case t.complete():
		return &finishedCondition{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached,
			"Reached expected number of succeeded pods"}
	}
	return nil
}

func (t *syncJobContext) complete() bool {
	if t.Job.Spec.Completions == nil {
		return t.succeeded > 0 && len(t.active) == 0
	}
	return t.succeeded >= *t.Job.Spec.Completions
}

// restartsReached counts container restarts if Pods restart in place: they count against
// backoffLimit like failed Pods.
func (t *syncJobContext) restartsReached(limit int32) bool {
	if t.Job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var n int32
	for _, p := range t.active {
		for _, c := range append(append([]corev1.ContainerStatus(nil), p.Status.InitContainerStatuses...),
			p.Status.ContainerStatuses...) {
			n += c.RestartCount
		}
	}
	return n > 0 && n >= limit
}

func (t *syncJobContext) deadlinePassed() bool {
	d := t.Job.Spec.ActiveDeadlineSeconds
	suspended := t.Job.Spec.Suspend != nil && *t.Job.Spec.Suspend
	return d != nil && t.status.StartTime != nil && !suspended &&
		t.Now.Sub(t.status.StartTime.Time) >= time.Duration(*d)*time.Second
}

// deadline returns the time left until activeDeadlineSeconds.
func (t *syncJobContext) deadline() time.Duration {
	d := t.Job.Spec.ActiveDeadlineSeconds
	if d == nil || t.status.StartTime == nil {
		return 0
	}
	return max(0, t.status.StartTime.Add(time.Duration(*d)*time.Second).Sub(t.Now))
}

func (t *syncJobContext) successPolicy() *finishedCondition {
	if t.Job.Spec.SuccessPolicy == nil || !indexed(t.Job) {
		return nil
	}
	for i, r := range t.Job.Spec.SuccessPolicy.Rules {
		among := t.succeededIndexes
		if r.SucceededIndexes != nil {
			among = Indexes{}
			for x := range ParseIndexes(*r.SucceededIndexes, completions(t.Job)) {
				if t.succeededIndexes[x] {
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
			return &finishedCondition{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy,
				fmt.Sprintf("Matched rules at index %d", i)}
		}
	}
	return nil
}

// addInterimCondition sets the interim condition.
func (t *syncJobContext) addInterimCondition(v finishedCondition) {
	if find(t.status.Conditions, v.interim) == nil {
		t.status.Conditions = append(t.status.Conditions, t.condition(v.interim, v.reason, v.message))
	}
}

func (t *syncJobContext) condition(typ batchv1.JobConditionType, reason, message string) batchv1.JobCondition {
	now := metav1.NewTime(t.Now)
	return batchv1.JobCondition{Type: typ, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastProbeTime: now, LastTransitionTime: now}
}

func find(cs []batchv1.JobCondition, typ batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range cs {
		if cs[i].Type == typ {
			return &cs[i]
		}
	}
	return nil
}

// terminatePods counts the Pods to be deleted as terminating; as failed if the Job has failed.
func (t *syncJobContext) terminatePods(p *Plan, ends bool) {
	if len(p.Delete) == 0 {
		return
	}
	deleted := map[string]bool{}
	for _, x := range p.Delete {
		deleted[string(x.UID)] = true
	}
	t.active = slices.DeleteFunc(slices.Clone(t.active), func(x *corev1.Pod) bool { return deleted[string(x.UID)] })
	t.terminating = append(t.terminating, p.Delete...)
	if failed := find(t.status.Conditions, batchv1.JobFailureTarget); ends && failed != nil && !replacesFailedOnly(
		t.Job) {
		for _, x := range p.Delete {
			if tracked(x) {
				t.uncountedBad[x.UID] = true
			}
		}
	}
	t.writeCounts()
}

// finalize sets the final condition once every Pod has ended and is counted.
func (t *syncJobContext) finalize(p *Plan) {
	if len(t.active) > 0 || len(t.terminating) > 0 || len(t.uncountedOK) > 0 || len(t.uncountedBad) > 0 {
		return
	}
	for _, x := range t.finished {
		if tracked(x) && !indexed(t.Job) {
			return
		}
	}
	var last batchv1.JobCondition
	if c := find(t.status.Conditions, batchv1.JobFailureTarget); c != nil {
		last = t.condition(batchv1.JobFailed, c.Reason, c.Message)
	} else if c := find(t.status.Conditions, batchv1.JobSuccessCriteriaMet); c != nil {
		last = t.condition(batchv1.JobComplete, c.Reason, c.Message)
		now := metav1.NewTime(t.Now)
		t.status.CompletionTime = &now
	} else {
		return
	}
	t.status.Conditions = append(t.status.Conditions, last)
	p.Finished = append(p.Finished, last)
}

// suspension updates the Suspended condition and the start time.
func (t *syncJobContext) suspension(suspended bool, p *Plan) {
	have := find(t.status.Conditions, batchv1.JobSuspended)
	now := metav1.NewTime(t.Now)
	switch {
	case suspended && (have == nil || have.Status != corev1.ConditionTrue):
		c := t.condition(batchv1.JobSuspended, "JobSuspended", "Job suspended")
		t.setCondition(have, c)
		t.status.StartTime = nil
		p.Finished = append(p.Finished, c)
	case !suspended && have != nil && have.Status == corev1.ConditionTrue:
		c := t.condition(batchv1.JobSuspended, "JobResumed", "Job resumed")
		c.Status = corev1.ConditionFalse
		t.setCondition(have, c)
		t.status.StartTime = &now
		p.Finished = append(p.Finished, c)
	}
}

func (t *syncJobContext) setCondition(have *batchv1.JobCondition, c batchv1.JobCondition) {
	if have != nil {
		*have = c
		return
	}
	t.status.Conditions = append(t.status.Conditions, c)
}

// podFailureAction returns the Pod failure policy's action for a failed Pod: empty without a
// policy, Count if no rule matches.
func podFailureAction(j *batchv1.Job, p *corev1.Pod) batchv1.PodFailurePolicyAction {
	action, _, _ := matchPodFailurePolicy(j, p)
	return action
}

func matchPodFailurePolicy(j *batchv1.Job, p *corev1.Pod) (batchv1.PodFailurePolicyAction, int, string) {
	if j.Spec.PodFailurePolicy == nil || p.Status.Phase != corev1.PodFailed {
		return "", -1, ""
	}
	for i, r := range j.Spec.PodFailurePolicy.Rules {
		if r.OnExitCodes != nil {
			if name, code, ok := exitMatches(r.OnExitCodes, p); ok {
				return r.Action, i,
					fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v matching %v rule at index %d",
						name, p.Namespace, p.Name, code, r.Action, i)
			}
		}
		for _, want := range r.OnPodConditions {
			for _, c := range p.Status.Conditions {
				if c.Type == want.Type && c.Status == want.Status {
					return r.Action, i, fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d",
						p.Namespace, p.Name, c.Type, r.Action, i)
				}
			}
		}
	}
	return batchv1.PodFailurePolicyActionCount, -1, ""
}

func exitMatches(r *batchv1.PodFailurePolicyOnExitCodesRequirement, p *corev1.Pod) (string, int32, bool) {
	all := append(append([]corev1.ContainerStatus(nil), p.Status.ContainerStatuses...),
		p.Status.InitContainerStatuses...)
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
	_, _, message := matchPodFailurePolicy(j, p)
	return message
}
