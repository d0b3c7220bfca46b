// Package jobttl removes finished Jobs when their time to live is over.
//
// Chapter 10, ended. In: Jobs. Out: their deletion in the foreground.
package jobttl

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/loop"
)

type controller struct {
	deps loop.Deps
	jobs batchlisters.JobLister
}

// New makes the controller.
func New(d loop.Deps) loop.Runner {
	jobs := d.Informers.Batch().V1().Jobs()
	c := &controller{d, jobs.Lister()}
	q := loop.NewQueue("jobttl", 2, c.sync)
	q.WatchSelf(jobs.Informer())
	return q
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	j, err := c.jobs.Jobs(ns).Get(name)
	if err != nil {
		return 0, loop.IgnoreGone(err)
	}
	left, ends := Left(j, time.Now())
	if !ends || left > 0 {
		return left, nil
	}
	// The cache may be behind a change of the limit: ask before deleting.
	fresh, err := c.deps.Client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, loop.IgnoreGone(err)
	}
	if left, ends = Left(fresh, time.Now()); !ends || left > 0 {
		return left, nil
	}
	foreground := metav1.DeletePropagationForeground
	return 0, loop.IgnoreGone(c.deps.Client.BatchV1().Jobs(ns).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: metav1.NewUIDPreconditions(string(fresh.UID))}))
}
