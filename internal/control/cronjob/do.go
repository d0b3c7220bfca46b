// Package cronjob starts Jobs by the clock.
//
// Chapter 1, written. In: CronJobs, the Jobs they control, the time. Out: Jobs, each named by the minute it was scheduled for, so that none starts
// twice; history within its limits; status and events as upstream's.
package cronjob

import (
	"context"
	"errors"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/loop"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

type controller struct {
	deps     loop.Deps
	cronJobs batchlisters.CronJobLister
	jobs     cache.SharedIndexInformer
}

// New makes the controller.
func New(d loop.Deps) loop.Runner {
	batch := d.Informers.Batch().V1()
	c := &controller{deps: d, cronJobs: batch.CronJobs().Lister(), jobs: batch.Jobs().Informer()}
	loop.IndexByController(c.jobs)
	q := loop.NewQueue("cronjob", 5, c.sync)
	q.WatchSelf(batch.CronJobs().Informer())
	q.Watch(c.jobs, loop.OwnerKeys(kind.Kind))
	return q
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	cj, err := c.cronJobs.CronJobs(ns).Get(name)
	if err != nil {
		return 0, loop.IgnoreGone(err)
	}
	in := In{CronJob: cj, Now: time.Now()}
	owned, err := c.jobs.GetIndexer().ByIndex(loop.ByController, string(cj.UID))
	if err != nil {
		return 0, err
	}
	for _, raw := range owned {
		in.Jobs = append(in.Jobs, raw.(*batchv1.Job))
	}
	// What the status lists and the cache does not have yet is asked for: a Job just made is not missing.
	for _, ref := range cj.Status.Active {
		if slices.ContainsFunc(in.Jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID }) {
			continue
		}
		j, err := c.deps.Client.BatchV1().Jobs(ns).Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil && j.UID == ref.UID {
			in.Jobs = append(in.Jobs, j)
		} else if err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	plan := Next(in)
	for _, e := range plan.Events {
		c.deps.Recorder.Event(cj, e.Type, e.Reason, e.Message)
	}
	failure := c.do(ctx, cj, &plan)
	return plan.Again, errors.Join(failure, c.writeStatus(ctx, cj, plan.Status))
}

func (c *controller) do(ctx context.Context, cj *batchv1.CronJob, plan *Plan) error {
	jobs := c.deps.Client.BatchV1().Jobs(cj.Namespace)
	background := metav1.DeletePropagationBackground
	for _, j := range plan.Delete {
		err := jobs.Delete(ctx, j.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(j.UID))})
		switch {
		case err == nil:
			c.deps.Recorder.Eventf(cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", j.Name)
		case !apierrors.IsNotFound(err):
			c.deps.Recorder.Eventf(cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
			return err
		}
	}
	if plan.Start == nil {
		return nil
	}
	made, err := jobs.Create(ctx, plan.Start, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err):
		// Made by an earlier look whose status was not written, or somebody else's of that name, which then stands for this time.
		if made, err = jobs.Get(ctx, plan.Start.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !metav1.IsControlledBy(made, cj) {
			plan.Status.LastScheduleTime = &metav1.Time{Time: plan.At}
			return nil
		}
	case err != nil:
		c.deps.Recorder.Eventf(cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return err
	default:
		c.deps.Recorder.Eventf(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", made.Name)
	}
	plan.Status.LastScheduleTime = &metav1.Time{Time: plan.At}
	plan.Status.Active = append(plan.Status.Active, corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: made.Namespace, Name: made.Name, UID: made.UID, ResourceVersion: made.ResourceVersion,
	})
	return nil
}

func (c *controller) writeStatus(ctx context.Context, cj *batchv1.CronJob, s batchv1.CronJobStatus) error {
	if equality.Semantic.DeepEqual(cj.Status, s) {
		return nil
	}
	cj = cj.DeepCopy()
	cj.Status = s
	_, err := c.deps.Client.BatchV1().CronJobs(cj.Namespace).UpdateStatus(ctx, cj, metav1.UpdateOptions{})
	return loop.IgnoreGone(err)
}
