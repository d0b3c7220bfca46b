package bind

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// PodGroupController keeps the status of PodGroups of scheduling.x-k8s.io, phase and counts of
// members, from Pods and PodGroups as informers have them.
type PodGroupController struct {
	client dynamic.Interface
	groups cache.Indexer
	pods   cache.Indexer
	queue  workqueue.TypedRateLimitingInterface[string]
	err    error
}

// NewPodGroupController registers with the informers, which the caller starts.
func NewPodGroupController(client dynamic.Interface, groups, pods cache.SharedIndexInformer) *PodGroupController {
	k := &PodGroupController{client: client, groups: groups.GetIndexer(), pods: pods.GetIndexer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](
			100*time.Millisecond, 30*time.Second))}
	note := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		switch o := obj.(type) {
		case *v1.Pod:
			if g := coscheduling.PodGroupLabelOf(o); g != "" {
				k.queue.Add(o.Namespace + "/" + g)
			}
		case *unstructured.Unstructured:
			k.queue.Add(o.GetNamespace() + "/" + o.GetName())
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) },
		DeleteFunc: note}
	for _, informer := range []cache.SharedIndexInformer{groups, pods} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			k.err = err // the informer has stopped, as the process is about to
		}
	}
	return k
}

// Run works until ctx ends.
func (k *PodGroupController) Run(ctx context.Context) {
	if k.err != nil {
		klog.FromContext(ctx).Error(k.err, "Status of PodGroups is not kept")
		return
	}
	stop := context.AfterFunc(ctx, k.queue.ShutDown)
	defer stop()
	for {
		key, down := k.queue.Get()
		if down {
			return
		}
		err := k.sync(ctx, key)
		switch {
		case err == nil || apierrors.IsNotFound(err):
			k.queue.Forget(key)
		case ctx.Err() == nil:
			klog.FromContext(ctx).V(2).Info("Status of PodGroup not written, will be tried again", "podGroup", key,
				"err", err)
			k.queue.AddRateLimited(key)
		}
		k.queue.Done(key)
	}
}

// sync writes the status of one PodGroup of the coscheduling API if its members give it another. A
// group that is gone is no error; any error has the key tried again.
func (k *PodGroupController) sync(ctx context.Context, key string) error {
	obj, exists, err := k.groups.GetByKey(key)
	u, ok := obj.(*unstructured.Unstructured)
	if err != nil || !exists || !ok {
		return err
	}
	g, err := coscheduling.ReadGroup(u.Object)
	if err != nil {
		return fmt.Errorf("reading PodGroup: %w", err)
	}
	all, err := k.pods.ByIndex(byPodGroupIndex, key)
	if err != nil {
		return err
	}
	members := make([]*v1.Pod, 0, len(all))
	for _, obj := range all {
		if p, ok := obj.(*v1.Pod); ok {
			members = append(members, p)
		}
	}
	want := coscheduling.NextStatus(g, members, time.Now())
	if want.Same(g.Status) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": g.UID}, "status": want.Content()})
	if err != nil {
		return err
	}
	_, err = k.client.Resource(coscheduling.PodGroups).Namespace(g.Namespace).Patch(ctx, g.Name, types.MergePatchType,
		patch, metav1.PatchOptions{}, "status")
	return err
}
