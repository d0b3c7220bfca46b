package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// One watcher of a hundred does not read while all is written. Nobody waits for it. Everybody sees
// every write, once and in order: who is cut off for being slow goes on from what it saw last.
func TestSlowWatcherDelaysNoOther(t *testing.T) {
	const watchers, writes = 100, 300
	_, c := shared(t)
	ns := newNamespace(t, c)
	maps := c.CoreV1().ConfigMaps(ns)
	from := mustCreate[*corev1.ConfigMapList](t)(maps.List(t.Context(), metav1.ListOptions{})).ResourceVersion
	open := func(after string) (watch.Interface, error) {
		return maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: after})
	}
	follow := func(w watch.Interface) error {
		defer func() { w.Stop() }()
		for seen, last := 0, from; seen < writes; {
			e, ok := <-w.ResultChan()
			if !ok {
				var err error
				if w, err = open(last); err != nil {
					return err
				}
				continue
			}
			m, is := e.Object.(*corev1.ConfigMap)
			if !is || e.Type != watch.Added || m.Name != fmt.Sprintf("m-%04d", seen) {
				return fmt.Errorf("event %d is %s %v", seen, e.Type, e.Object)
			}
			seen, last = seen+1, m.ResourceVersion
		}
		return nil
	}
	var wg sync.WaitGroup
	written := make(chan struct{})
	for i := range watchers {
		w := mustCreate[watch.Interface](t)(open(from))
		wg.Go(func() {
			if i == 0 {
				<-written
			}
			if err := follow(w); err != nil {
				t.Errorf("watcher %d: %v, want no error", i, err)
			}
		})
	}
	filler := strings.Repeat("x", 4096) // more in all than what lies between a server and a client that does not read
	for n := range writes {
		mustCreate[*corev1.ConfigMap](t)(maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%04d", n)},
				Data: map[string]string{"x": filler}}, metav1.CreateOptions{}))
	}
	close(written)
	wg.Wait()
}

// A list in pages whose history is compacted meanwhile says 410, with a token that goes on at what
// is now.
func TestPagesAcrossACompaction(t *testing.T) {
	config := testConfig(t.TempDir())
	s, c, stop := startServer(t, config)
	ns := newNamespace(t, c)
	maps := c.CoreV1().ConfigMaps(ns)
	create := func(name string) *corev1.ConfigMap {
		return mustCreate[*corev1.ConfigMap](t)(maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	for _, n := range []string{"a", "b", "d"} {
		create(n)
	}
	page := mustCreate[*corev1.ConfigMapList](t)(maps.List(t.Context(), metav1.ListOptions{Limit: 2}))
	if len(page.Items) != 2 || page.Continue == "" {
		t.Fatalf("a page of %d, continue %q", len(page.Items), page.Continue)
	}
	create("c")
	last := create("e")
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	mustCreate[*clientv3.CompactResponse](t)(etcd.Compact(t.Context(), number(t, last.ResourceVersion)))
	etcd.Close()
	stop()
	_, c, _ = startServer(t, config) // whose cache remembers no state of before
	maps = c.CoreV1().ConfigMaps(ns)
	_, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: page.Continue})
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Code != http.StatusGone ||
		status.Status().ListMeta.Continue == "" ||
		!strings.Contains(err.Error(),
			"The provided continue parameter is too old to display a consistent list result.") {
		t.Fatalf("an old token: %v", err)
	}
	var rest []string
	for token := status.Status().ListMeta.Continue; token != ""; {
		page, err = maps.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Items {
			rest = append(rest, m.Name)
		}
		token = page.Continue
	}
	// and perhaps what the cluster puts into every namespace
	if got := strings.Join(rest, " "); !strings.HasPrefix(got, "c d e") {
		t.Errorf("the rest: got %q, want it to begin with %q", got, "c d e")
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: "nonsense"}); !apierrors.IsBadRequest(
		err) {
		t.Errorf("a token that is none: %v", err)
	}
}

// Informers of client-go see all that is written, over a connection that breaks again and again.
//
// row: API-10
func TestInformersOverABreakingConnection(t *testing.T) {
	s, c := shared(t)
	ns := newNamespace(t, c)
	cfg := restclient.CopyConfig(s.InProcess(admin()))
	var mu sync.Mutex
	var cut []context.CancelFunc
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("watch") == "" {
				return rt.RoundTrip(req)
			}
			ctx, cancel := context.WithCancel(req.Context())
			mu.Lock()
			cut = append(cut, cancel)
			mu.Unlock()
			res, err := rt.RoundTrip(req.WithContext(ctx))
			if err != nil {
				cancel()
				return nil, &net.OpError{Op: "read", Err: err}
			}
			return res, nil
		})
	})
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), 0,
		informers.WithNamespace(ns))
	informer := factory.Core().V1().ConfigMaps().Informer()
	added := map[string]int{}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		mu.Lock()
		defer mu.Unlock()
		added[o.(*corev1.ConfigMap).Name]++
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	const writes = 40
	for n := range writes {
		mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m-", n)}}, metav1.CreateOptions{}))
		if n%15 == 7 {
			mu.Lock()
			for _, c := range cut {
				c()
			}
			cut = nil
			mu.Unlock()
		}
	}
	eventually(t, "the informer has all", func() bool { return len(informer.GetStore().ListKeys()) >= writes })
	mu.Lock()
	defer mu.Unlock()
	for n := range writes {
		if name := fmt.Sprint("m-", n); added[name] != 1 {
			t.Errorf("%s came %d times, want 1", name, added[name])
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Of the candidates for a Lease exactly one leads; when it releases the Lease another follows.
func TestLeaderElectionOfClientGo(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	led := make(chan string, 3)
	ends := map[string]context.CancelFunc{}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: ns, Name: "boss"},
			Client: c.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name}}
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 2 * time.Minute, RenewDeadline: time.Minute,
			RetryPeriod: 50 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led <- name },
				OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ends[name] = cancel
		wg.Go(func() { e.Run(ctx) })
	}
	defer wg.Wait()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	before := map[string]bool{}
	for range 3 {
		select {
		case name := <-led:
			lease := mustCreate[*coordinationv1.Lease](t)(c.CoordinationV1().Leases(ns).Get(t.Context(),
				"boss", metav1.GetOptions{}))
			if before[name] || *lease.Spec.HolderIdentity != name || len(led) > 0 {
				t.Errorf("%s leads; others before: %v", name, before)
			}
			before[name] = true
			ends[name]()
		case <-time.After(time.Minute):
			t.Fatal("nobody leads")
		}
	}
}

// A plain watch that names no revision, whose client reads what comes, is not cut off while Pods
// are created and bound as fast as they can be, and misses none.
// row: API-14
func TestPlainWatchIsNotCutOff(t *testing.T) {
	t.Parallel()
	const many = 200
	config := testConfig(t.TempDir())
	config.Access = func(AccessDeps) (*Access, error) { return &Access{Authenticator: byHeader{}}, nil }
	s, c, _ := startServer(t, config)
	ns := newNamespace(t, c)
	var readers sync.WaitGroup
	for _, selector := range []string{"spec.nodeName!=", "spec.nodeName=n", ""} {
		for _, revision := range []string{"", "0"} {
			o := metav1.ListOptions{FieldSelector: selector, ResourceVersion: revision}
			w := mustCreate[watch.Interface](t)(overHTTPS(s).CoreV1().Pods(ns).Watch(t.Context(), o))
			readers.Go(func() {
				defer w.Stop()
				for gone := 0; gone < many; {
					e, ok := <-w.ResultChan()
					if !ok || e.Type == watch.Error {
						t.Errorf("the watch of %q from %q ended when %d of %d Pods were gone: %v", selector, revision,
							gone, many, e.Object)
						return
					}
					if e.Type == watch.Deleted {
						gone++
					}
				}
			})
		}
	}
	runPodLifecycles(t, c, ns, "p", many)
	readers.Wait()
}
