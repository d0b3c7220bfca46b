package podsource

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Watch puts the API's Pods of one node into a Receiver until ctx ends. client-go's Reflector
// lists, watches, resumes and backs off.
func Watch(ctx context.Context, client kubernetes.Interface, node string, m Receiver) {
	onThisNode := fields.OneTermEqualSelector("spec.nodeName", node).String()
	pods := client.CoreV1().Pods(v1.NamespaceAll)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = onThisNode
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = onThisNode
			return pods.Watch(ctx, o)
		},
	}
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), &v1.Pod{},
		&store{receiver: m, known: map[types.UID]*v1.Pod{}}, cache.ReflectorOptions{Name: "kubelet pods"})
	r.RunWithContext(ctx)
}

// store is a cache.Store that passes on what a Reflector learns. A Pod deleted and made again under
// the same name while the watch was down has a new uid: it is another Pod.
type store struct {
	receiver Receiver

	mu    sync.Mutex
	known map[types.UID]*v1.Pod
}

func (s *store) Add(obj any) error    { return s.put(obj) }
func (s *store) Update(obj any) error { return s.put(obj) }

func (s *store) put(obj any) error {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return fmt.Errorf("expected a Pod, got %T", obj)
	}
	s.mu.Lock()
	s.known[pod.UID] = pod
	s.mu.Unlock()
	s.receiver.Put(API, pod)
	return nil
}

// Delete is told with the object as it was when it was deleted.
func (s *store) Delete(obj any) error {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return fmt.Errorf("expected a Pod, got %T", obj)
	}
	s.mu.Lock()
	last, known := s.known[pod.UID]
	delete(s.known, pod.UID)
	s.mu.Unlock()
	if known {
		grace := pod.DeletionGracePeriodSeconds
		s.receiver.Remove(API, last, grace != nil && *grace == 0)
	}
	return nil
}

// Replace is told with everything there is, after a list.
func (s *store) Replace(list []any, _ string) error {
	have := map[types.UID]bool{}
	for _, obj := range list {
		pod, ok := obj.(*v1.Pod)
		if !ok {
			return fmt.Errorf("expected a Pod, got %T", obj)
		}
		have[pod.UID] = true
	}
	s.mu.Lock()
	var removed []*v1.Pod
	for uid, pod := range s.known {
		if !have[uid] {
			removed = append(removed, pod)
			delete(s.known, uid)
		}
	}
	s.mu.Unlock()
	for _, pod := range removed {
		s.receiver.Remove(API, pod, false)
	}
	for _, obj := range list {
		if err := s.put(obj); err != nil {
			return err
		}
	}
	s.receiver.Complete(API)
	return nil
}

func (s *store) List() []any                        { return nil }
func (s *store) ListKeys() []string                 { return nil }
func (s *store) Get(any) (any, bool, error)         { return nil, false, nil }
func (s *store) GetByKey(string) (any, bool, error) { return nil, false, nil }
func (s *store) Resync() error                      { return nil }
