package apiserver

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Who follows without the handler chain gets what a client gets, as objects of its own: writing to
// one changes nothing for others.
func TestDirectBringsWhatAClientGets(t *testing.T) {
	s, c, _ := startServer(t, testConfig(t.TempDir()))
	direct := cache.ToListerWatcherWithContext(s.ListerWatcher("", "pods"))
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods("default").Create(t.Context(), labelled(pod("old"), "x", "y"),
		metav1.CreateOptions{}))
	list, err := direct.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, ok := list.(*corev1.PodList)
	if !ok {
		t.Fatalf("got %T, want a list of Pods", list)
	}
	theirs, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{ResourceVersion: got.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatchExact}) // a server that starts writes other kinds meanwhile
	if err != nil {
		t.Fatal(err)
	}
	if got.ResourceVersion != theirs.ResourceVersion || !equality.Semantic.DeepEqual(got.Items, theirs.Items) {
		t.Fatalf("listed %+v, a client %+v", list, theirs)
	}
	got.Items[0].Labels["mine"] = "yes"
	var own [4]watch.Interface // the library shares an object among three and more
	for i := range own {
		if own[i], err = direct.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: got.ResourceVersion,
			AllowWatchBookmarks: true}); err != nil {
			t.Fatal(err)
		}
		defer own[i].Stop()
	}
	client, err := c.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: got.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods("default").Create(t.Context(), labelled(pod("new"), "x", "y"),
		metav1.CreateOptions{}))
	if _, err := c.CoreV1().Pods("default").Patch(t.Context(), "old", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Pods("default").Delete(t.Context(),
		"old", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		want := next(t, client)
		for _, w := range own {
			e := next(t, w)
			p, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type != want.Type || !equality.Semantic.DeepEqual(p, want.Object) {
				t.Errorf("got %s %+v, a client %s %+v", e.Type, e.Object, want.Type, want.Object)
				continue
			}
			p.Labels["mine"] = "yes"
			p.Spec.Containers[0].Image = "mine"
		}
	}
}

// An informer fills itself this way, and what its transform does to objects stays with it.
func TestDirectFeedsAnInformer(t *testing.T) {
	s, c, _ := startServer(t, testConfig(t.TempDir()))
	mustCreate[*corev1.Pod](t)(c.CoreV1().Pods("default").Create(t.Context(), pod("first"), metav1.CreateOptions{}))
	informer := cache.NewSharedIndexInformer(s.ListerWatcher("", "pods"), &corev1.Pod{}, 0, cache.Indexers{})
	if err := informer.SetTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).ManagedFields = nil
		return obj, nil
	}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan *corev1.Pod, 10)
	if _, err := informer.AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { seen <- obj.(*corev1.Pod) }}); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	for _, name := range []string{"first", "second"} {
		if name == "second" {
			mustCreate[*corev1.Pod](t)(c.CoreV1().Pods("default").Create(t.Context(), pod(name),
				metav1.CreateOptions{}))
		}
		var p *corev1.Pod
		select {
		case p = <-seen:
		case <-time.After(time.Minute):
			t.Fatalf("%s was not received within a minute", name)
		}
		if p.Name != name || p.ManagedFields != nil {
			t.Fatalf("%s with %v, want %s", p.Name, p.ManagedFields, name)
		}
		if p, err := c.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{ResourceVersion: "0"}); err !=
			nil || len(p.ManagedFields) == 0 {
			t.Errorf("the cache's own %s: %v %v", name, p.ManagedFields, err)
		}
	}
}

func TestDirectKindThatIsNotServed(t *testing.T) {
	s, _ := shared(t)
	if _, err := cache.ToListerWatcherWithContext(s.ListerWatcher("", "nothings")).ListWithContext(t.Context(),
		metav1.ListOptions{}); err == nil {
		t.Error("listed what is not served")
	}
}
