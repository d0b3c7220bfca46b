// Package cronjob starts Jobs on a schedule.
//
// In: CronJobs, the Jobs they control, the time. Out: Jobs, each named by its scheduled minute, so
// that none starts twice; history within its limits; status and events as upstream's.
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

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

type controller struct {
	controllerContext controllerruntime.ControllerContext
	cronJobs          batchlisters.CronJobLister
	jobs              cache.SharedIndexInformer
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	batch := d.Informers.Batch().V1()
	c := &controller{controllerContext: d, cronJobs: batch.CronJobs().Lister(), jobs: batch.Jobs().Informer()}
	controllerruntime.IndexByController(c.jobs)
	q := controllerruntime.NewQueue("cronjob", 5, c.syncCronJob)
	q.WatchByKey(batch.CronJobs().Informer())
	q.Watch(c.jobs, controllerruntime.OwnerKeys(kind.Kind))
	return q
}

func (c *controller) syncCronJob(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	cj, err := c.cronJobs.CronJobs(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	in := In{CronJob: cj, Now: c.controllerContext.Time()}
	owned, err := c.jobs.GetIndexer().ByIndex(controllerruntime.ByControllerIndex, string(cj.UID))
	if err != nil {
		return 0, err
	}
	for _, raw := range owned {
		in.Jobs = append(in.Jobs, raw.(*batchv1.Job))
	}
	// A Job that the cached status does not list may be the last sync's.
	if hasUnlisted(in.Jobs, cj.Status.Active) {
		live, err := c.controllerContext.Client.BatchV1().CronJobs(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, controllerruntime.IgnoreNotFound(err)
		}
		if live.UID != cj.UID {
			return 0, nil // its own event brings it
		}
		cj, in.CronJob = live, live
	}
	// A Job in the status that the cache lacks is read from the API: it may have just been created.
	for _, ref := range cj.Status.Active {
		if slices.ContainsFunc(in.Jobs, func(j *batchv1.Job) bool { return j.UID == ref.UID }) {
			continue
		}
		j, err := c.controllerContext.Client.BatchV1().Jobs(ns).Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil && j.UID == ref.UID {
			in.Jobs = append(in.Jobs, j)
		} else if err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	plan := Next(in)
	for _, e := range plan.Events {
		c.controllerContext.Recorder.Event(cj, e.Type, e.Reason, e.Message)
	}
	failure := c.do(ctx, cj, &plan)
	return plan.RequeueAfter, errors.Join(failure, c.writeStatus(ctx, cj, plan.Status))
}

func (c *controller) do(ctx context.Context, cj *batchv1.CronJob, plan *Plan) error {
	jobs := c.controllerContext.Client.BatchV1().Jobs(cj.Namespace)
	background := metav1.DeletePropagationBackground
	for _, j := range plan.Delete {
		err := jobs.Delete(ctx, j.Name, metav1.DeleteOptions{PropagationPolicy: &background,
			Preconditions: metav1.NewUIDPreconditions(string(j.UID))})
		switch {
		case err == nil:
			c.controllerContext.Recorder.Eventf(cj, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v",
				j.Name)
		case !apierrors.IsNotFound(err):
			c.controllerContext.Recorder.Eventf(cj, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
			return err
		}
	}
	if plan.Start == nil {
		return nil
	}
	created, err := jobs.Create(ctx, plan.Start, metav1.CreateOptions{})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err):
		// Created by an earlier sync whose status was not written, or another object of that name,
		// which then counts for this time.
		if created, err = jobs.Get(ctx, plan.Start.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !metav1.IsControlledBy(created, cj) {
			plan.Status.LastScheduleTime = &metav1.Time{Time: plan.At}
			return nil
		}
	case err != nil:
		c.controllerContext.Recorder.Eventf(cj, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return err
	default:
		creationSkew.Observe(created.CreationTimestamp.Sub(plan.At).Seconds())
		c.controllerContext.Recorder.Eventf(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v",
			created.Name)
	}
	plan.Status.LastScheduleTime = &metav1.Time{Time: plan.At}
	plan.Status.Active = append(plan.Status.Active, corev1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: created.Namespace, Name: created.Name,
		UID: created.UID, ResourceVersion: created.ResourceVersion,
	})
	return nil
}

func (c *controller) writeStatus(ctx context.Context, cj *batchv1.CronJob, s batchv1.CronJobStatus) error {
	if equality.Semantic.DeepEqual(cj.Status, s) {
		return nil
	}
	cj = cj.DeepCopy()
	cj.Status = s
	_, err := c.controllerContext.Client.BatchV1().CronJobs(cj.Namespace).UpdateStatus(ctx, cj, metav1.UpdateOptions{})
	return controllerruntime.IgnoreNotFound(err)
}
