package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/pod"
)

const subsystem = "job_controller"

var (
	syncSeconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "job_sync_duration_seconds", StabilityLevel: metrics.STABLE,
		Help: "The time it took to sync a job", Buckets: metrics.ExponentialBuckets(0.004, 2, 15),
	}, []string{"completion_mode", "result", "action"})
	syncs = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "job_syncs_total", StabilityLevel: metrics.STABLE,
		Help: "The number of job syncs",
	}, []string{"completion_mode", "result", "action"})
	jobsFinished = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "jobs_finished_total", StabilityLevel: metrics.STABLE,
		Help: "The number of finished jobs",
	}, []string{"completion_mode", "result", "reason"})
	podsFinished = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "job_pods_finished_total", StabilityLevel: metrics.STABLE,
		Help: "The number of finished Pods that are fully tracked",
	}, []string{"completion_mode", "result"})
	byExternalController = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "jobs_by_external_controller_total", StabilityLevel: metrics.ALPHA,
		Help: "The number of Jobs managed by an external controller",
	}, []string{"controller_name"})
	failuresHandled = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "pod_failures_handled_by_failure_policy_total", StabilityLevel: metrics.BETA,
		Help: "The number of failed Pods handled by failure policy with\n\t\t\trespect to the failure policy action " +
			"applied based on the matched\n\t\t\trule. Possible values of the action label correspond to the\n\t\t\t" +
			"possible values for the failure policy rule action, which are:\n\t\t\t\"FailJob\", \"Ignore\" and " +
			"\"Count\".",
	}, []string{"action"})
	endsTracked = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "terminated_pods_tracking_finalizer_total", StabilityLevel: metrics.BETA,
		Help: "The number of terminated pods (phase=Failed|Succeeded)\nthat have the finalizer " +
			"batch.kubernetes.io/job-tracking\nThe event label can be \"add\" or \"delete\".",
	}, []string{"event"})
	indexesFinished = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "job_finished_indexes_total",
		Help: "The number of finished indexes. Possible values for the\n\t\t\tstatus label are: \"succeeded\", " +
			"\"failed\". Possible values for the\n\t\t\tbackoffLimit label are: \"perIndex\" and \"global\"",
	}, []string{"status", "backoffLimit"})
	podsCreated = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "job_pods_creation_total",
		Help: "The number of Pods created by the Job controller labelled with a reason for the Pod creation.\n" +
			"This metric also distinguishes between Pods created using different PodReplacementPolicy settings.\n" +
			"Possible values of the \"reason\" label are:\n\"new\", \"recreate_terminating_or_failed\", " +
			"\"recreate_failed\".\nPossible values of the \"status\" label are:\n\"succeeded\", \"failed\".",
	}, []string{"reason", "status"})
	staleSkips = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "stale_sync_skips_total", StabilityLevel: metrics.ALPHA,
		Help: "Total number of Job syncs skipped due to a stale watch cache.",
	}, []string{"group", "resource"})
)

func init() {
	legacyregistry.MustRegister(syncSeconds, syncs, jobsFinished, podsFinished, byExternalController, failuresHandled,
		endsTracked, indexesFinished, podsCreated, staleSkips)
}

// results of a Job or of a Pod.
const (
	succeeded = "succeeded"
	failed    = "failed"
)

// completionMode is the label's value for a Job.
func completionMode(j *batchv1.Job) string {
	if indexed(j) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// syncAction names what a sync did, with upstream's words.
func syncAction(p *Plan, settled bool) string {
	switch {
	case !settled:
		return "reconciling"
	case len(p.Create) > 0:
		return "pods_created"
	case len(p.Delete) > 0:
		return "pods_deleted"
	}
	return "tracking"
}

// countSync counts a sync and how long it took.
func countSync(j *batchv1.Job, action string, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	syncSeconds.WithLabelValues(completionMode(j), result, action).Observe(took.Seconds())
	syncs.WithLabelValues(completionMode(j), result, action).Inc()
}

// countEnds counts what a written status says beyond the one before: ends of Pods, and that of the
// Job. Of an Indexed Job it is the indexes that succeed.
func countEnds(j *batchv1.Job, p *Plan) {
	mode, more := completionMode(j), int(p.Status.Succeeded-j.Status.Succeeded)
	if n := j.Spec.Completions; n != nil && indexed(j) {
		more = len(ParseIndexes(p.Status.CompletedIndexes, int(*n))) -
			len(ParseIndexes(j.Status.CompletedIndexes, int(*n)))
	}
	countIndexes(j, p)
	podsFinished.WithLabelValues(mode, succeeded).Add(float64(max(more, 0)))
	podsFinished.WithLabelValues(mode, failed).Add(float64(max(p.Status.Failed-j.Status.Failed, 0)))
	for i := range p.Finished {
		switch c := &p.Finished[i]; c.Type {
		case batchv1.JobComplete:
			jobsFinished.WithLabelValues(mode, succeeded, c.Reason).Inc()
		case batchv1.JobFailed:
			jobsFinished.WithLabelValues(mode, failed, c.Reason).Inc()
		}
	}
}

// countIndexes counts the indexes that a written status says have ended beyond the one before.
func countIndexes(j *batchv1.Job, p *Plan) {
	if !indexed(j) || j.Spec.Completions == nil {
		return
	}
	limit := "global"
	if indexedLimits(j) {
		limit = "perIndex"
	}
	count := func(text *string) int { return len(ParseIndexes(ptr.Deref(text, ""), int(*j.Spec.Completions))) }
	for result, more := range map[string]int{
		succeeded: count(&p.Status.CompletedIndexes) - count(&j.Status.CompletedIndexes),
		failed:    count(p.Status.FailedIndexes) - count(j.Status.FailedIndexes),
	} {
		if more > 0 {
			indexesFinished.WithLabelValues(result, limit).Add(float64(more))
		}
	}
}

// creationReason is why a plan creates Pods, with upstream's words.
func creationReason(j *batchv1.Job, p *Plan) string {
	bad := p.Status.Failed > 0
	if u := p.Status.UncountedTerminatedPods; u != nil {
		bad = bad || len(u.Failed) > 0
	}
	switch {
	case bad && replacesFailedOnly(j):
		return "recreate_failed"
	case bad || ptr.Deref(p.Status.Terminating, 0) > 0:
		return "recreate_terminating_or_failed"
	}
	return "new"
}

// countCreation counts an attempt to create a Pod.
func countCreation(reason string, err error) {
	result := succeeded
	if err != nil {
		result = failed
	}
	podsCreated.WithLabelValues(reason, result).Inc()
}

// countTracked counts that a Pod has ended with the finalizer that tracks it, and that such a Pod
// has it no more; a Pod that was not, or is no more, is nil.
func countTracked(was, is *corev1.Pod) {
	waiting := func(p *corev1.Pod) bool { return p != nil && pod.IsTerminal(p) && tracked(p) }
	switch before, after := waiting(was), waiting(is); {
	case after && !before:
		endsTracked.WithLabelValues("add").Inc()
	case before && !after:
		endsTracked.WithLabelValues("delete").Inc()
	}
}
