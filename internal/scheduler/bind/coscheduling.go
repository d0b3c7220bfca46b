package bind

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
)

// byPodGroupIndex indexes Pods by namespace and PodGroup.
const byPodGroupIndex = "gantry/pod-group"

// podGroupLister are the informers behind Coscheduling.
type podGroupLister struct {
	groups       cache.GenericLister
	pods         cache.Indexer
	mu           sync.Mutex
	backoffUntil map[string]time.Time // until when, by namespace/name
}

var _ coscheduling.Sources = (*podGroupLister)(nil)

func newCoscheduling(_ context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
	own, ok := args.(*coscheduling.Args)
	switch {
	case args == nil:
		own = &coscheduling.Args{}
	case !ok:
		return nil, fmt.Errorf("arguments are of type %T, want %T", args, own)
	}
	own.Complete()
	handle, ok := h.(*frameworkruntime.Handle)
	if !ok {
		return nil, fmt.Errorf("the handle is a %T: this plugin runs in this scheduler only", h)
	}
	dynamic := handle.DynamicInformers()
	if dynamic == nil {
		return nil, errors.New("no client for custom resources: give the scheduler a kubeconfig")
	}
	pods := h.SharedInformerFactory().Core().V1().Pods().Informer()
	if _, have := pods.GetIndexer().GetIndexers()[byPodGroupIndex]; !have { // another profile may have it already
		if err := pods.AddIndexers(cache.Indexers{byPodGroupIndex: podGroupIndexFunc}); err != nil {
			return nil, fmt.Errorf("indexing Pods by PodGroup: %w", err)
		}
	}
	return coscheduling.New(own, h, &podGroupLister{groups: dynamic.ForResource(coscheduling.PodGroups).Lister(),
		pods: pods.GetIndexer(), backoffUntil: map[string]time.Time{}}), nil
}

func podGroupIndexFunc(obj any) ([]string, error) {
	if p, ok := obj.(*v1.Pod); ok && coscheduling.PodGroupLabelOf(p) != "" {
		return []string{p.Namespace + "/" + coscheduling.PodGroupLabelOf(p)}, nil
	}
	return nil, nil
}

// Group finds a PodGroup; one that cannot be read counts as missing.
func (g *podGroupLister) Group(namespace, name string) *coscheduling.Group {
	obj, err := g.groups.ByNamespace(namespace).Get(name)
	if err != nil {
		return nil
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	out, err := coscheduling.ReadGroup(u.Object)
	if err != nil {
		return nil
	}
	return out
}

// Members lists the Pods of a group.
func (g *podGroupLister) Members(namespace, group string) ([]*v1.Pod, error) {
	all, err := g.pods.ByIndex(byPodGroupIndex, namespace+"/"+group)
	if err != nil {
		return nil, err
	}
	out := make([]*v1.Pod, 0, len(all))
	for _, obj := range all {
		if p, ok := obj.(*v1.Pod); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// Backoff keeps a group from being scheduled for a while.
func (g *podGroupLister) Backoff(group *coscheduling.Group, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.backoffUntil[group.Namespace+"/"+group.Name] = time.Now().Add(d)
}

// InBackoff tells whether that while lasts.
func (g *podGroupLister) InBackoff(group *coscheduling.Group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := group.Namespace + "/" + group.Name
	until, ok := g.backoffUntil[k]
	if ok && !time.Now().Before(until) {
		delete(g.backoffUntil, k)
		ok = false
	}
	return ok
}
