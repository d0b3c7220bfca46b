package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// customResourceSyncTimeout is how long scheduling waits at the start for custom resources to be
// listed. Their definition may be missing: plugins get no events of them then.
const customResourceSyncTimeout = 3 * time.Second

// customResources are the informers of resources whose events plugins register for as
// "plural.version.group".
type customResources struct {
	factory dynamicinformer.DynamicSharedInformerFactory // nil: there is no client
	client  dynamic.Interface
	pods    cache.SharedIndexInformer
	watched map[schema.GroupVersionResource]bool
	synced  []cache.InformerSynced
}

// newCustomResources makes informers for resources that the framework has no name of. Without a
// client nothing is watched; that is no error.
func newCustomResources(o Options) (*customResources, error) {
	c := &customResources{watched: map[schema.GroupVersionResource]bool{}}
	client := o.Dynamic
	if client == nil && o.KubeConfig != nil {
		var err error
		if client, err = dynamic.NewForConfig(o.KubeConfig); err != nil {
			return c, fmt.Errorf("client for custom resources: %w", err)
		}
	}
	if client != nil {
		c.factory, c.client, c.pods = dynamicinformer.NewDynamicSharedInformerFactory(client, 0), client,
			o.Informers.Core().V1().Pods().Informer()
	}
	return c, nil
}

// customResource parses "plural.version.group"; false for the resources of the framework.
func customResource(r framework.EventResource) (schema.GroupVersionResource, bool) {
	// storage.k8s.io/CSINode and the like have informers of their own
	if strings.Contains(string(r), "/") || strings.Count(string(r), ".") < 2 {
		return schema.GroupVersionResource{}, false
	}
	gvr, _ := schema.ParseResourceArg(string(r))
	return *gvr, true
}

// watch has changed called with an object before and after each change of a resource.
func (c *customResources) watch(gvr schema.GroupVersionResource, changed func(before, after any)) error {
	if c.watched[gvr] {
		return nil
	}
	if c.factory == nil {
		return fmt.Errorf("events of %s are asked for, but there is no client for custom resources: give the "+
			"scheduler a kubeconfig", gvr)
	}
	c.watched[gvr] = true
	reg, err := c.factory.ForResource(gvr).Informer().AddEventHandler(eventHandlerFuncs(changed))
	if err != nil {
		return fmt.Errorf("watching %s: %w", gvr, err)
	}
	c.synced = append(c.synced, reg.HasSynced)
	return nil
}

// start lists and watches until ctx ends; it returns when all are listed, or after
// customResourceSyncTimeout.
func (c *customResources) start(ctx context.Context) {
	if c.factory == nil || len(c.watched) == 0 {
		return
	}
	if c.watched[coscheduling.PodGroups] {
		groups := bind.NewPodGroupController(c.client, c.factory.ForResource(coscheduling.PodGroups).Informer(), c.pods)
		go groups.Run(ctx)
	}
	c.factory.Start(ctx.Done())
	wait, cancel := context.WithTimeout(ctx, customResourceSyncTimeout)
	defer cancel()
	cache.WaitForCacheSync(wait.Done(), c.synced...)
}
