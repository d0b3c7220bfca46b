package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func hasCondition(j *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(j.Status.Conditions,
		func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

// statusCheck is one check of a Job's status. What an update leaves as it was is not validated: a
// Job whose spec has just changed may hold a status that no longer fits, until its controller has
// seen it.
type statusCheck struct {
	typed.Errors
	j, was *batchv1.Job
}

// checkJobStatus wants a status that leads to one end and stays there.
func checkJobStatus(j, previous *batchv1.Job) field.ErrorList {
	c := &statusCheck{j: j, was: previous}
	c.counts()
	c.outcome()
	c.checkFinishedConditions()
	c.indexes()
	c.criteria()
	c.checkMonotonic()
	return c.List()
}

// conditionAdded says that one of the conditions has come or gone.
func (c *statusCheck) conditionAdded(list ...batchv1.JobConditionType) bool {
	return slices.ContainsFunc(list,
		func(t batchv1.JobConditionType) bool { return hasCondition(c.j, t) != hasCondition(c.was, t) })
}

func (c *statusCheck) changed(pick func(*batchv1.JobStatus) any) bool {
	return !apiequality.Semantic.DeepEqual(pick(&c.j.Status), pick(&c.was.Status))
}

func (c *statusCheck) conditions(detail string) {
	c.Invalid(status().Child("conditions"), field.OmitValueType{}, detail)
}

func (c *statusCheck) counts() {
	s := &c.j.Status
	c.NotNegative(status().Child("active"), int64(s.Active))
	c.NotNegative(status().Child("succeeded"), int64(s.Succeeded))
	c.NotNegative(status().Child("failed"), int64(s.Failed))
	c.NotNegativeIf(status().Child("ready"), s.Ready)
	c.NotNegativeIf(status().Child("terminating"), s.Terminating)
	if s.UncountedTerminatedPods == nil {
		return
	}
	path, seen := status().Child("uncountedTerminatedPods"), sets.New[types.UID]()
	list := func(uids []types.UID, at *field.Path) {
		for i, uid := range uids {
			switch {
			case uid == "":
				c.Invalid(at.Index(i), uid, "must not be empty")
			case seen.Has(uid):
				c.Add(field.Duplicate(at.Index(i), uid))
			}
			seen.Insert(uid)
		}
	}
	list(s.UncountedTerminatedPods.Succeeded, path.Child("succeeded"))
	list(s.UncountedTerminatedPods.Failed, path.Child("failed"))
}

// outcome validates the conditions against one another and against the times.
func (c *statusCheck) outcome() {
	s, complete, failed := &c.j.Status, hasCondition(c.j, batchv1.JobComplete), hasCondition(c.j, batchv1.JobFailed)
	completion := c.changed(func(s *batchv1.JobStatus) any { return s.CompletionTime })
	start := c.changed(func(s *batchv1.JobStatus) any { return s.StartTime })
	if complete && failed && c.conditionAdded(batchv1.JobComplete, batchv1.JobFailed) {
		c.conditions("cannot set Complete=True and Failed=true conditions")
	}
	if complete && hasCondition(c.j, batchv1.JobFailureTarget) && c.conditionAdded(batchv1.JobComplete,
		batchv1.JobFailureTarget) {
		c.conditions("cannot set Complete=True and FailureTarget=true conditions")
	}
	at := status().Child("completionTime")
	if completion || c.conditionAdded(batchv1.JobComplete) {
		switch {
		case s.CompletionTime != nil && !complete:
			c.Invalid(at, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		case s.CompletionTime == nil && complete:
			c.Required(at, "completionTime is required for Complete jobs")
		}
	}
	if (completion || start) && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime) {
		c.Invalid(at, s.CompletionTime, "completionTime cannot be set before startTime")
	}
	if failed && !hasCondition(c.j, batchv1.JobFailureTarget) && c.conditionAdded(batchv1.JobFailed,
		batchv1.JobFailureTarget) {
		c.conditions("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if complete && !hasCondition(c.j, batchv1.JobSuccessCriteriaMet) && c.conditionAdded(batchv1.JobComplete,
		batchv1.JobSuccessCriteriaMet) {
		c.conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
}

func finished(j *batchv1.Job) bool {
	return hasCondition(j, batchv1.JobComplete) || hasCondition(j, batchv1.JobFailed)
}

// checkFinishedConditions wants a finished Job to have started and to have no Pods left.
func (c *statusCheck) checkFinishedConditions() {
	if !finished(c.j) {
		return
	}
	s, now := &c.j.Status, !finished(c.was)
	if s.Active > 0 && (now || s.Active != c.was.Status.Active) {
		c.Invalid(status().Child("active"), s.Active, "active>0 is invalid for finished job")
	}
	idle := typed.Deref(c.j.Spec.Suspend) && c.j.Spec.Completions != nil && *c.j.Spec.Completions == 0
	if s.StartTime == nil && !idle && (now || c.was.Status.StartTime != nil) {
		c.Required(status().Child("startTime"), "startTime is required for finished job")
	}
	u := s.UncountedTerminatedPods
	if u != nil && len(u.Failed)+len(u.Succeeded) > 0 &&
		(now || c.changed(func(s *batchv1.JobStatus) any { return s.UncountedTerminatedPods })) {
		c.Invalid(status().Child("uncountedTerminatedPods"), u,
			"must be empty for finished job")
	}
}

func (c *statusCheck) indexes() {
	s, n := &c.j.Status, c.j.Spec.Completions
	completedNew, failedNew := s.CompletedIndexes != c.was.Status.CompletedIndexes,
		c.changed(func(s *batchv1.JobStatus) any { return s.FailedIndexes })
	completedAt, failedAt := status().Child("completedIndexes"), status().Child("failedIndexes")
	var done, bad []indexSpan
	var doneErr, badErr error
	if n != nil {
		done, doneErr = parseIndexes(s.CompletedIndexes, *n)
		bad, badErr = parseIndexes(typed.Deref(s.FailedIndexes), *n)
	}
	if completedNew && doneErr != nil {
		c.Invalid(completedAt, s.CompletedIndexes, "error parsing completedIndexes: "+doneErr.Error())
	}
	if failedNew && badErr != nil && c.j.Spec.BackoffLimitPerIndex != nil {
		c.Invalid(failedAt, s.FailedIndexes, "error parsing failedIndexes: "+badErr.Error())
	}
	if completedNew && s.CompletedIndexes != "" && !indexed(&c.j.Spec) {
		c.Invalid(completedAt, s.CompletedIndexes,
			"cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failedNew && s.FailedIndexes != nil && c.j.Spec.BackoffLimitPerIndex == nil {
		c.Invalid(failedAt, *s.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if i, both := countOverlap(done, bad); both && (completedNew || failedNew) {
		c.Invalid(failedAt, *s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", i))
	}
}

// criteria validates the Pods that are left, and the condition that comes before Complete.
func (c *statusCheck) criteria() {
	s := &c.j.Status
	if typed.Deref(s.Terminating) > 0 && finished(c.j) &&
		(!finished(c.was) || !apiequality.Semantic.DeepEqual(s.Terminating, c.was.Status.Terminating)) {
		c.Invalid(status().Child("terminating"), *s.Terminating, "terminating>0 is invalid for finished job")
	}
	moved := s.Active != c.was.Status.Active || !apiequality.Semantic.DeepEqual(s.Ready, c.was.Status.Ready)
	if s.Ready != nil && *s.Ready > s.Active && moved {
		c.Invalid(status().Child("ready"), *s.Ready, "cannot set more ready pods than active")
	}
	met := hasCondition(c.j, batchv1.JobSuccessCriteriaMet)
	if met && hasCondition(c.j, batchv1.JobFailed) {
		c.conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && hasCondition(c.j, batchv1.JobFailureTarget) {
		c.conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if c.j.Spec.SuccessPolicy != nil && !met && hasCondition(c.j, batchv1.JobComplete) {
		c.conditions("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

// checkMonotonic refuses what would take back something clients have relied on.
func (c *statusCheck) checkMonotonic() {
	s, w := &c.j.Status, &c.was.Status
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if hasCondition(c.was, t) && !hasCondition(c.j, t) {
			c.conditions(fmt.Sprintf("cannot disable the terminal %s=True condition", t))
		}
	}
	if s.Failed < w.Failed {
		c.Invalid(status().Child("failed"), s.Failed, "cannot decrease the failed counter")
	}
	elastic := indexed(&c.j.Spec) && apiequality.Semantic.DeepEqual(c.j.Spec.Completions, c.j.Spec.Parallelism)
	if s.Succeeded < w.Succeeded && !elastic {
		c.Invalid(status().Child("succeeded"), s.Succeeded, "cannot decrease the succeeded counter")
	}
	if s.CompletionTime != nil && w.CompletionTime != nil && !s.CompletionTime.Equal(w.CompletionTime) {
		c.Invalid(status().Child("completionTime"), s.CompletionTime, "field is immutable")
	}
	resumes := hasCondition(c.was, batchv1.JobSuspended) && !hasCondition(c.j, batchv1.JobSuspended)
	if w.StartTime != nil && !w.StartTime.Equal(s.StartTime) && !typed.Deref(c.j.Spec.Suspend) && !resumes {
		c.Invalid(status().Child("startTime"), s.StartTime, "field is immutable for unsuspended job once set")
	}
	if hasCondition(c.was, batchv1.JobSuccessCriteriaMet) && !hasCondition(c.j, batchv1.JobSuccessCriteriaMet) {
		c.conditions("cannot disable the SuccessCriteriaMet=True condition")
	}
	if hasCondition(c.was, batchv1.JobComplete) && c.conditionAdded(batchv1.JobSuccessCriteriaMet) && hasCondition(c.j,
		batchv1.JobSuccessCriteriaMet) {
		c.conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}
