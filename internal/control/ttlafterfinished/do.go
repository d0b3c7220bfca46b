// Package ttlafterfinished deletes finished Jobs when their TTL has expired.
//
// In: Jobs. Out: their foreground deletion.
package ttlafterfinished

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	jobs              batchlisters.JobLister
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	jobs := d.Informers.Batch().V1().Jobs()
	c := &controller{d, jobs.Lister()}
	q := controllerruntime.NewQueue("jobttl", 2, c.processJob)
	q.WatchByKey(jobs.Informer())
	return q
}

func (c *controller) processJob(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	j, err := c.jobs.Jobs(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	left, ends := TimeLeft(j, c.controllerContext.Time())
	if !ends || left > 0 {
		return left, nil
	}
	// The cache may lack a change of the TTL: read before deleting.
	fresh, err := c.controllerContext.Client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if left, ends = TimeLeft(fresh, c.controllerContext.Time()); !ends || left > 0 {
		return left, nil
	}
	foreground := metav1.DeletePropagationForeground
	err = c.controllerContext.Client.BatchV1().Jobs(ns).Delete(ctx, name,
		metav1.DeleteOptions{PropagationPolicy: &foreground,
			Preconditions: metav1.NewUIDPreconditions(string(fresh.UID))})
	if err == nil {
		c.controllerContext.Journal.Put(journal.Ref{Kind: "Job", Namespace: ns, Name: name, UID: string(fresh.UID)},
			journal.Acted{Controller: "ttl-after-finished", Action: "deletes the Job", Message: Reason(fresh)})
		deletionSeconds.Observe(Overdue(fresh, c.controllerContext.Time()).Seconds())
	}
	return 0, controllerruntime.IgnoreNotFound(err)
}
