package node

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// GraphPopulator keeps an Graph from the API. It stores nothing but the index.
type GraphPopulator struct {
	Client            kubernetes.Interface
	Graph             *Graph
	Pods              cache.ListerWatcher // all of them
	podsSynced        atomic.Bool
	pvsSynced         atomic.Bool
	attachmentsSynced atomic.Bool
}

// Synced tells whether everything there was has been seen.
func (f *GraphPopulator) Synced() bool {
	return f.podsSynced.Load() && f.pvsSynced.Load() && f.attachmentsSynced.Load()
}

// Run follows the API until the context ends.
func (f *GraphPopulator) Run(ctx context.Context) {
	c := f.Client
	go runReflector(ctx, &corev1.Pod{}, podStore{f}, f.Pods)
	go runReflector(ctx, &corev1.PersistentVolume{}, volumeStore{f}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.CoreV1().PersistentVolumes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.CoreV1().PersistentVolumes().Watch(ctx, o)
		},
	})
	go runReflector(ctx, &storagev1.VolumeAttachment{},
		objectNodeStore{f.Graph, "volumeattachments", volumeAttachmentNode, &f.attachmentsSynced, map[string]bool{}},
		&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return c.StorageV1().VolumeAttachments().List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.StorageV1().VolumeAttachments().Watch(ctx, o)
			},
		})
}

// RunSlices follows ResourceSlices until the context ends.
func (f *GraphPopulator) RunSlices(ctx context.Context) {
	c := f.Client
	go runReflector(ctx, &resourcev1.ResourceSlice{}, objectNodeStore{f.Graph, "resourceslices", resourceSliceNode,
		&atomic.Bool{}, map[string]bool{}}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.ResourceV1().ResourceSlices().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.ResourceV1().ResourceSlices().Watch(ctx, o)
		},
	})
}

func runReflector(ctx context.Context, example runtime.Object, store cache.ReflectorStore, lw cache.ListerWatcher) {
	cache.NewReflectorWithOptions(lw, example, store,
		cache.ReflectorOptions{Name: fmt.Sprintf("auth/node %T", example)}).RunWithContext(ctx)
}

type podStore struct{ *GraphPopulator }

func (s podStore) Add(obj any) error    { s.Graph.AddPod(obj.(*corev1.Pod)); return nil }
func (s podStore) Update(obj any) error { return s.Add(obj) }
func (s podStore) Resync() error        { return nil }

func (s podStore) Delete(obj any) error {
	p := obj.(*corev1.Pod)
	s.Graph.DeletePod(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	return nil
}

func (s podStore) Replace(list []any, _ string) error {
	pods := make([]*corev1.Pod, 0, len(list))
	for _, obj := range list {
		pods = append(pods, obj.(*corev1.Pod))
	}
	s.Graph.ReplacePods(pods)
	s.GraphPopulator.podsSynced.Store(true)
	return nil
}

type volumeStore struct{ *GraphPopulator }

func (s volumeStore) Add(obj any) error {
	s.Graph.AddPV(obj.(*corev1.PersistentVolume))
	return nil
}
func (s volumeStore) Update(obj any) error { return s.Add(obj) }
func (s volumeStore) Resync() error        { return nil }

func (s volumeStore) Delete(obj any) error {
	s.Graph.DeletePV(obj.(*corev1.PersistentVolume).Name)
	return nil
}

func (s volumeStore) Replace(list []any, _ string) error {
	s.Graph.replaceVolumes(list)
	s.GraphPopulator.pvsSynced.Store(true)
	return nil
}

func (x *Graph) replaceVolumes(list []any) {
	keep := map[string]bool{}
	for _, obj := range list {
		pv := obj.(*corev1.PersistentVolume)
		keep[pv.Name] = true
		x.AddPV(pv)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for name := range x.pvs {
		if !keep[name] {
			x.deletePVLocked(name)
		}
	}
}

// objectNodeStore takes objects that name one node.
type objectNodeStore struct {
	graph  *Graph
	kind   string
	node   func(obj any) (name, node string)
	synced *atomic.Bool
	seen   map[string]bool // only the reflector's goroutine touches it
}

func volumeAttachmentNode(obj any) (string, string) {
	va := obj.(*storagev1.VolumeAttachment)
	return va.Name, va.Spec.NodeName
}

func resourceSliceNode(obj any) (string, string) {
	s := obj.(*resourcev1.ResourceSlice)
	if s.Spec.NodeName == nil {
		return s.Name, ""
	}
	return s.Name, *s.Spec.NodeName
}

func (s objectNodeStore) Add(obj any) error {
	name, node := s.node(obj)
	s.seen[name] = true
	s.graph.SetObjectNode(s.kind, name, node)
	return nil
}

func (s objectNodeStore) Update(obj any) error { return s.Add(obj) }
func (s objectNodeStore) Resync() error        { return nil }

func (s objectNodeStore) Delete(obj any) error {
	name, _ := s.node(obj)
	delete(s.seen, name)
	s.graph.SetObjectNode(s.kind, name, "")
	return nil
}

func (s objectNodeStore) Replace(list []any, _ string) error {
	keep := map[string]bool{}
	for _, obj := range list {
		name, _ := s.node(obj)
		keep[name] = true
		_ = s.Add(obj)
	}
	for name := range s.seen {
		if !keep[name] {
			delete(s.seen, name)
			s.graph.SetObjectNode(s.kind, name, "")
		}
	}
	s.synced.Store(true)
	return nil
}
