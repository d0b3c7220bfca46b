package podinformer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/test/wrappers"
)

func podNamed(name, version string) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).ResourceVersion(version).Obj()
}

// eventLog records what a handler receives.
type eventLog chan string

func (c eventLog) OnAdd(obj any, first bool) {
	c <- fmt.Sprintf("add %s first=%v", obj.(*v1.Pod).Name, first)
}

func (c eventLog) OnUpdate(old, obj any) {
	c <- fmt.Sprintf("update %s %s to %s", obj.(*v1.Pod).Name, old.(*v1.Pod).ResourceVersion,
		obj.(*v1.Pod).ResourceVersion)
}

func (c eventLog) OnDelete(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		c <- "gone " + gone.Key
		return
	}
	c <- "delete " + obj.(*v1.Pod).Name
}

func (c eventLog) next(t *testing.T, n int) (out []string) {
	t.Helper()
	for range n {
		select {
		case s := <-c:
			out = append(out, s)
		case <-time.After(time.Minute):
			t.Fatalf("got nothing more after %q, want more", out)
		}
	}
	return out
}

// A handler receives the first list, what changes, and after a watch that ended what the
// next list lacks.
func TestPodInformerNotifiesAsAnInformer(t *testing.T) {
	lists := make(chan *v1.PodList, 2)
	watches := make(chan *watch.FakeWatcher, 2)
	from := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return <-lists, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				return nil, fmt.Errorf("lists only")
			}
			return <-watches, nil
		},
	}
	f := newInlineInformer(from, &v1.Pod{})
	if err := f.SetTransform(func(obj any) (any, error) { obj.(*v1.Pod).ManagedFields = nil; return obj, nil }); err !=
		nil {
		t.Fatal(err)
	}
	c := make(eventLog, 100)
	r, err := f.AddEventHandler(c)
	if err != nil || r.HasSynced() {
		t.Fatalf("synced before it was started: %v", err)
	}
	first, second := watch.NewFake(), watch.NewFake()
	watches <- first
	watches <- second
	lists <- &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"},
		Items: []v1.Pod{*podNamed("a", "1"), *podNamed("b", "2")}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.RunWithContext(ctx) }()
	if got := c.next(t, 2); !slices.Equal(got, []string{"add a first=true", "add b first=true"}) {
		t.Errorf("got %q, want %v", got, []string{"add a first=true", "add b first=true"})
	}
	<-r.HasSyncedChecker().Done()
	first.Add(podNamed("c", "6"))
	first.Modify(podNamed("a", "7"))
	first.Delete(podNamed("b", "8"))
	if got := c.next(t, 3); !slices.Equal(got, []string{"add c first=false", "update a 1 to 7", "delete b"}) {
		t.Errorf("got %q, want %v", got, []string{"add c first=false", "update a 1 to 7", "delete b"})
	}
	late := make(eventLog, 100)
	if _, err := f.AddEventHandler(late); err != nil || len(late.next(t, 2)) != 2 {
		t.Errorf("a later handler receives what exists: %v", err)
	}
	lists <- &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []v1.Pod{*podNamed("a", "9")}}
	first.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired})
	if got := c.next(t, 2); !slices.Equal(got, []string{"update a 7 to 9", "gone ns/c"}) {
		t.Errorf("got %q, want %v", got, []string{"update a 7 to 9", "gone ns/c"})
	}
	if err := f.RemoveEventHandler(r); err != nil {
		t.Error(err)
	}
	late.next(t, 2)
	second.Modify(podNamed("a", "10"))
	if got := late.next(t, 1); got[0] != "update a 9 to 10" || len(c) > 0 {
		t.Errorf("%q, and %d to who has left", got, len(c))
	}
	obj, there, err := f.GetStore().GetByKey("ns/a")
	if err != nil || !there || obj.(*v1.Pod).ResourceVersion != "10" ||
		len(f.ListIndexFuncValues(cache.NamespaceIndex)) != 1 {
		t.Errorf("got %v, %v, want no error, there true, ResourceVersion 10 and len 1", obj, err)
	}
	cancel()
	<-ended
	if _, err := f.AddEventHandler(c); err == nil || !f.IsStopped() {
		t.Errorf("one that has stopped takes handlers: got %v, stopped %t, want an error and true", err, f.IsStopped())
	}
}
