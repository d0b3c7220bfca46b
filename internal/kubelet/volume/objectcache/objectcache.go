package objectcache

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Deps is what a Cache works with.
type Deps struct {
	Client  kubernetes.Interface
	Changed func(types.UID) // an object the Pod refers to changed, came or went; must not block
}

// Cache holds objects.
type Cache struct {
	ctx context.Context
	d   Deps

	mu    sync.Mutex
	items map[volume.Ref]*cacheItem
	pods  map[types.UID]map[volume.Ref]bool
}

// New returns a Cache whose watches end with ctx.
func New(ctx context.Context, d Deps) *Cache {
	return &Cache{ctx: ctx, d: d, items: map[volume.Ref]*cacheItem{}, pods: map[types.UID]map[volume.Ref]bool{}}
}

// RegisterPod watches what the Pod refers to until Drop. It can be repeated with a changed Pod.
func (c *Cache) RegisterPod(pod *v1.Pod) {
	want := volume.Refs(pod)
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.pods[pod.UID]
	for ref := range want {
		if !have[ref] {
			c.addReference(ref, pod.UID)
		}
	}
	for ref := range have {
		if !want[ref] {
			c.dropReference(ref, pod.UID)
		}
	}
	if len(want) == 0 {
		delete(c.pods, pod.UID)
		return
	}
	c.pods[pod.UID] = want
}

// UnregisterPod ends the watches only this Pod needed.
func (c *Cache) UnregisterPod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ref := range c.pods[uid] {
		c.dropReference(ref, uid)
	}
	delete(c.pods, uid)
}

// GetConfigMap returns the ConfigMap. It waits for the first answer of its watch, and asks the API
// server directly when no held Pod refers to it.
func (c *Cache) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	o, err := c.get(ctx, volume.Ref{Kind: volume.ConfigMap, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return o.(*v1.ConfigMap), nil
}

// GetSecret returns the Secret, as GetConfigMap does.
func (c *Cache) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	o, err := c.get(ctx, volume.Ref{Kind: volume.Secret, Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	return o.(*v1.Secret), nil
}

func (c *Cache) get(ctx context.Context, ref volume.Ref) (runtime.Object, error) {
	c.mu.Lock()
	i := c.items[ref]
	c.mu.Unlock()
	if i == nil {
		return kindOf(ref).get(ctx, c.d.Client, ref)
	}
	return i.get(ctx)
}

func (c *Cache) addReference(ref volume.Ref, uid types.UID) {
	i := c.items[ref]
	if i == nil {
		i = &cacheItem{cache: c, ref: ref, pods: map[types.UID]bool{}, synced: make(chan struct{}), since: time.Now()}
		c.items[ref] = i
		i.watch(c.ctx)
	}
	i.pods[uid] = true
}

func (c *Cache) dropReference(ref volume.Ref, uid types.UID) {
	i := c.items[ref]
	delete(i.pods, uid)
	if len(i.pods) == 0 {
		i.stop()
		delete(c.items, ref)
	}
}

// notifyPods tells the Pods of an item.
func (c *Cache) notifyPods(i *cacheItem) {
	c.mu.Lock()
	uids := make([]types.UID, 0, len(i.pods))
	for uid := range i.pods {
		uids = append(uids, uid)
	}
	c.mu.Unlock()
	for _, uid := range uids {
		c.d.Changed(uid)
	}
}
