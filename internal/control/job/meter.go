package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
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
)

func init() { legacyregistry.MustRegister(syncSeconds, syncs, jobsFinished, podsFinished) }

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
