package controllerruntime

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// countingInformer counts the listeners that an informer really has.
type countingInformer struct {
	cache.SharedIndexInformer
	n int
}

func (c *countingInformer) AddEventHandler(
	h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	c.n++
	return c.SharedIndexInformer.AddEventHandler(h)
}

// Handlers added before the start get every event, in the order in which they were added, through
// one listener; later ones get them too and can be removed.
func TestSharedHandlers(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	source := fcache.NewFakeControllerSource()
	source.Add(pod("first"))
	inner := &countingInformer{SharedIndexInformer: cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0,
		cache.Indexers{})}
	j := ShareHandlers(inner)
	events := make(chan string, 100)
	listen := func(who string) cache.ResourceEventHandlerRegistration {
		t.Helper()
		r, err := j.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { events <- who + " add " + obj.(*corev1.Pod).Name },
			UpdateFunc: func(_, obj any) { events <- who + " update " + obj.(*corev1.Pod).Name },
			DeleteFunc: func(obj any) { events <- who + " delete " + obj.(*corev1.Pod).Name },
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	expectEvents := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			got = append(got, <-events)
		}
		if len(want) == 2 && !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	r := listen("a")
	listen("b")
	if inner.n != 1 {
		t.Errorf("%d listeners, want 1", inner.n)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go j.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), r.HasSynced) {
		t.Fatal("no first list")
	}
	expectEvents("a add first", "b add first")
	late := listen("c")
	expectEvents("c add first")
	if inner.n != 2 {
		t.Errorf("%d listeners, want 2", inner.n)
	}
	source.Modify(pod("first"))
	expectEvents("a update first", "b update first", "c update first")
	if err := j.RemoveEventHandler(late); err != nil {
		t.Error(err)
	}
	if err := j.RemoveEventHandler(r); err == nil {
		t.Error("one of several who share was removed")
	}
	source.Delete(pod("first"))
	expectEvents("a delete first", "b delete first")
}
