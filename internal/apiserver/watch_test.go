package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// next waits for the next event of a watch that is not a bookmark.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the watch ended")
			}
			if e.Type != watch.Bookmark {
				return e
			}
		case <-time.After(time.Minute):
			t.Fatal("no event within a minute")
		}
	}
}

func nextEvent(t *testing.T, w watch.Interface, typ watch.EventType, name string) *corev1.Pod {
	t.Helper()
	e := next(t, w)
	p, ok := e.Object.(*corev1.Pod)
	if e.Type != typ || !ok || p.Name != name {
		t.Fatalf("got %s %v, want %s of %s", e.Type, e.Object, typ, name)
	}
	return p
}

func quiet(t *testing.T, w watch.Interface) {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		if e.Type != watch.Bookmark {
			t.Errorf("unexpected %s of %v", e.Type, e.Object)
		}
	default:
	}
}

func bind(t *testing.T, c kubernetes.Interface, p *corev1.Pod, node string) {
	t.Helper()
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := c.CoreV1().Pods(p.Namespace).Bind(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// row: API-11
// row: API-13
// row: API-16
func TestWatchSeesEveryWriteInOrder(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	w := mustCreate[watch.Interface](t)(pods.Watch(t.Context(), metav1.ListOptions{}))
	defer w.Stop()
	p := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("a"), metav1.CreateOptions{}))
	bind(t, c, p, "n1")
	mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}))
	mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status"))
	if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	nextEvent(t, w, watch.Added, "a")
	if b := nextEvent(t, w, watch.Modified, "a"); b.Spec.NodeName != "n1" {
		t.Error("the binding is not its own event")
	}
	if b := nextEvent(t, w, watch.Modified, "a"); b.Labels["x"] != "y" {
		t.Error("the label is not its own event")
	}
	if b := nextEvent(t, w, watch.Modified, "a"); b.Status.Phase != corev1.PodRunning {
		t.Error("the status is not its own event")
	}
	if b := nextEvent(t, w, watch.Modified, "a"); b.DeletionTimestamp == nil {
		t.Error("the wish to delete is not its own event") // a graceful kind is marked first, even with grace 0
	}
	nextEvent(t, w, watch.Deleted, "a")
	quiet(t, w)
}

// row: API-14
// row: API-15
func TestWatchByNodeName(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	by := func(node string) watch.Interface {
		return mustCreate[watch.Interface](t)(pods.Watch(t.Context(),
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + node}))
	}
	unassigned, n3, n4 := by(""), by("node-3"), by("node-4")
	for _, w := range []watch.Interface{unassigned, n3, n4} {
		defer w.Stop()
	}
	p := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("a"), metav1.CreateOptions{}))
	nextEvent(t, unassigned, watch.Added, "a")
	bind(t, c, p, "node-3")
	nextEvent(t, unassigned, watch.Deleted, "a")
	nextEvent(t, n3, watch.Added, "a")
	q := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("b"), metav1.CreateOptions{}))
	bind(t, c, q, "node-4")
	nextEvent(t, n4, watch.Added, "b")
	quiet(t, n3)
	list := mustCreate[*corev1.PodList](t)(pods.List(t.Context(),
		metav1.ListOptions{FieldSelector: "spec.nodeName=node-3"}))
	if len(list.Items) != 1 || list.Items[0].Name != "a" {
		t.Errorf("listed by node: %d Pods", len(list.Items))
	}
}

// row: API-10
func TestWatchResumes(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("seen"), metav1.CreateOptions{}))
	w := mustCreate[watch.Interface](t)(pods.Watch(t.Context(), metav1.ListOptions{}))
	last := nextEvent(t, w, watch.Added, "seen").ResourceVersion
	w.Stop()
	for _, n := range []string{"one", "two", "three"} {
		mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod(n), metav1.CreateOptions{}))
	}
	w = mustCreate[watch.Interface](t)(pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: last}))
	defer w.Stop()
	for _, n := range []string{"one", "two", "three"} {
		nextEvent(t, w, watch.Added, n)
	}
	quiet(t, w)
}

// A streaming list sends what there is, then a bookmark that says so, then changes.
func TestWatchList(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	pods := c.CoreV1().Pods(ns)
	for i := range 3 {
		mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod(fmt.Sprint("p", i)), metav1.CreateOptions{}))
	}
	w := mustCreate[watch.Interface](t)(pods.Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks: true,
	}))
	defer w.Stop()
	for range 3 {
		if e := <-w.ResultChan(); e.Type != watch.Added {
			t.Fatalf("got %s before the end of the list", e.Type)
		}
	}
	e := <-w.ResultChan()
	if p, ok := e.Object.(*corev1.Pod); e.Type != watch.Bookmark || !ok ||
		p.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("got %s %v, want the bookmark that ends the list", e.Type, e.Object)
	}
	mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("new"), metav1.CreateOptions{}))
	nextEvent(t, w, watch.Added, "new")
}

// An informer receives each write by the watch it has: nothing is asked for between a Pod's
// creation and its notice, however many come, so that only the way of one event lies between. What
// that way takes is measured (`hack/bench -only latencies`); even on a busy machine the quickest of
// twenty takes no more than it may.
//
// row: API-18
func TestInformerNeedsNoFurtherRequests(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	cfg := restclient.CopyConfig(s.InProcess(admin()))
	var asked atomic.Int32
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			asked.Add(1)
			return rt.RoundTrip(req)
		})
	})
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), 0,
		informers.WithNamespace(ns))
	noticed := make(chan *corev1.Pod, 1)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { noticed <- o.(*corev1.Pod) }}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer stop()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	before, quickest := asked.Load(), time.Minute
	for n := range 20 {
		begin := time.Now()
		made := mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod(fmt.Sprint("p", n)),
			metav1.CreateOptions{}))
		select {
		case p := <-noticed:
			quickest = min(quickest, time.Since(begin))
			if p.UID != made.UID || p.ResourceVersion != made.ResourceVersion {
				t.Fatalf("noticed %s at %s, want %s at %s", p.Name, p.ResourceVersion, made.Name, made.ResourceVersion)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s was not noticed", made.Name)
		}
	}
	if quickest > 50*time.Millisecond {
		t.Errorf("the quickest of 20 notices took %s, want at most 50ms", quickest)
	}
	if n := asked.Load() - before; n != 0 {
		t.Errorf("%d requests between 20 creations and their notice, want none", n)
	}
}

// A client that stops ends its request; the watch channel closes.
func TestWatchEndsWithItsContext(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	w := mustCreate[watch.Interface](t)(c.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{}))
	cancel()
	select {
	case _, ok := <-w.ResultChan():
		if ok {
			t.Error("an event came after the end")
		}
	case <-time.After(time.Minute):
		t.Error("the watch did not end")
	}
}

// Whatever is written, of whichever kind, in a namespace or without, by creation, patch or status,
// has the revision that etcd gave the write, above those of all earlier writes.
//
// row: API-09
func TestResourceVersionIsTheStoresRevision(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	etcd, err := s.Store().Client()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	ctx, create := t.Context(), metav1.CreateOptions{}
	named := metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "a"}}
	labels := []byte(`{"metadata":{"labels":{"n":"1"}}}`)
	var last int64
	for _, w := range []struct {
		what, key string
		write     func() (metav1.Object, error)
	}{
		{"a Pod", "pods/" + ns + "/a", func() (metav1.Object, error) {
			return c.CoreV1().Pods(ns).Create(ctx, pod("a"), create)
		}},
		{"a ConfigMap", "configmaps/" + ns + "/a", func() (metav1.Object, error) {
			return c.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: named}, create)
		}},
		{"a Lease", "leases/" + ns + "/a", func() (metav1.Object, error) {
			return c.CoordinationV1().Leases(ns).Create(ctx, &coordinationv1.Lease{ObjectMeta: named}, create)
		}},
		{"a ClusterRole", "clusterroles/" + ns, func() (metav1.Object, error) {
			return c.RbacV1().ClusterRoles().Create(ctx,
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}}, create)
		}},
		{"the Pod's labels", "pods/" + ns + "/a", func() (metav1.Object, error) {
			return c.CoreV1().Pods(ns).Patch(ctx, "a", types.MergePatchType, labels, metav1.PatchOptions{})
		}},
		{"the ClusterRole's labels", "clusterroles/" + ns, func() (metav1.Object, error) {
			return c.RbacV1().ClusterRoles().Patch(ctx, ns, types.MergePatchType, labels, metav1.PatchOptions{})
		}},
		{"the Pod's status", "pods/" + ns + "/a", func() (metav1.Object, error) {
			return c.CoreV1().Pods(ns).Patch(ctx, "a", types.MergePatchType, []byte(`{"status":{"reason":"Tried"}}`),
				metav1.PatchOptions{}, "status")
		}},
	} {
		got, err := w.write()
		if err != nil {
			t.Fatalf("writing %s: got %v, want no error", w.what, err)
		}
		rv := number(t, got.GetResourceVersion())
		if rv <= last {
			t.Errorf("%s: revision %d of a later write is not above %d", w.what, rv, last)
		}
		last = rv
		res, err := etcd.Get(ctx, "/registry/"+w.key)
		if err != nil || len(res.Kvs) != 1 || res.Kvs[0].ModRevision != rv {
			t.Errorf("%s: etcd says %+v, %v; the object says %d", w.what, res, err, rv)
		}
	}
}

func number(t *testing.T, rv string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A watch from history that is compacted away says 410, so that the client lists anew. What was
// acknowledged is there after a restart.
//
// row: API-10
func TestCompactionAndRestart(t *testing.T) {
	config := testConfig(t.TempDir())
	s, c, stop := startServer(t, config)
	pods := c.CoreV1().Pods("default")
	first := mustCreate[*corev1.Pod](t)(pods.Create(t.Context(), pod("a"), metav1.CreateOptions{}))
	last := first
	for i := range 3 {
		last = mustCreate[*corev1.Pod](t)(pods.Patch(t.Context(), "a", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, i), metav1.PatchOptions{}))
	}
	etcd, err := s.Store().Client()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Compact(t.Context(), number(t, last.ResourceVersion)); err != nil {
		t.Fatal(err)
	}
	etcd.Close()
	stop()

	_, c, _ = startServer(t, config) // with an empty watch cache
	pods = c.CoreV1().Pods("default")
	got := mustCreate[*corev1.Pod](t)(pods.Get(t.Context(), "a", metav1.GetOptions{}))
	if got.UID != first.UID || got.ResourceVersion != last.ResourceVersion || got.Labels["n"] != "2" {
		t.Errorf("after the restart: %+v", got.ObjectMeta)
	}
	_, err = pods.List(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion,
		ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("list of compacted history: %v, want 410", err)
	}
	w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err == nil {
		defer w.Stop()
		e := next(t, w)
		err = apierrors.FromObject(e.Object)
		if e.Type != watch.Error {
			err = errors.New("an event instead of an error")
		}
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("watch from compacted history: %v, want 410", err)
	}
}
