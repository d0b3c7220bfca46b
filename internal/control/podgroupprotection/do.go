package podgroupprotection

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// activeMembers is the index of the Pods that run or are to run, by the key of their PodGroup.
const activeMembers = "activePodSchedulingGroup"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	groups            schedulinglisters.PodGroupLister
	pods              cache.Indexer
}

// New returns the controller; one that does nothing where PodGroups are not served.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	if !d.PodGroups {
		return controllerruntime.Idle{}
	}
	groups, pods := d.Informers.Scheduling().V1beta1().PodGroups(), d.Informers.Core().V1().Pods().Informer()
	// AddIndexers only fails if the index exists already, which is fine.
	_ = pods.AddIndexers(cache.Indexers{activeMembers: func(obj any) ([]string, error) {
		if p, ok := obj.(*v1.Pod); ok && GroupOf(p) != "" {
			return []string{GroupOf(p)}, nil
		}
		return nil, nil
	}})
	c := &controller{d, groups.Lister(), pods.GetIndexer()}
	q := controllerruntime.NewQueue("podgroupprotection", 1, c.sync)
	q.WatchByKey(groups.Informer())
	q.Watch(pods, LeftGroups)
	return q
}

func (c *controller) sync(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	g, err := c.groups.PodGroups(ns).Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	freed := WithoutFinalizer(g)
	if freed == nil {
		return 0, nil
	}
	members, err := c.pods.ByIndex(activeMembers, key)
	if err != nil || len(members) > 0 {
		return 0, err // the end of the last causes another sync
	}
	_, err = c.controllerContext.Client.SchedulingV1beta1().PodGroups(ns).Update(ctx, freed, metav1.UpdateOptions{})
	return 0, controllerruntime.IgnoreNotFound(err)
}
