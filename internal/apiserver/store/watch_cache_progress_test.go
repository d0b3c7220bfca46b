package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"
)

// kindStorage is the storage of ConfigMaps as the server has it, under the name of some kind that
// has a cache, which is filled.
func kindStorage(t *testing.T, s *Store, kind string, d ...value.Transformer) storage.Interface {
	t.Helper()
	kinds := kindStorage0(t, s, kind, d...)
	s.shared.mu.Lock()
	cache := s.shared.caches[len(s.shared.caches)-1].cache.(*cacher.Cacher)
	s.shared.mu.Unlock()
	if err := cache.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return kinds
}

func kindStorage0(t *testing.T, s *Store, kind string, d ...value.Transformer) storage.Interface {
	t.Helper()
	v1 := corev1.SchemeGroupVersion
	codec := runtime.NewCodec(scheme.Codecs.LegacyCodec(v1), scheme.Codecs.UniversalDecoder(v1))
	config := storagebackend.NewDefaultConfig(Prefix, codec).ForResource(schema.GroupResource{Resource: kind})
	for _, d := range d {
		config.Transformer = d
	}
	key := func(o runtime.Object) (string, error) {
		c := o.(*corev1.ConfigMap)
		return "/" + kind + "/" + c.Namespace + "/" + c.Name, nil
	}
	kinds, destroy, err := s.shared.newStorage(config, "/"+kind, key,
		func() runtime.Object { return &corev1.ConfigMap{} },
		func() runtime.Object { return &corev1.ConfigMapList{} }, storage.DefaultNamespaceScopedAttr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return kinds
}

func putConfigMap(t *testing.T, kinds storage.Interface, kind, name string) {
	t.Helper()
	c := &corev1.ConfigMap{}
	c.Name, c.Namespace = name, "n"
	if err := kinds.Create(t.Context(), "/"+kind+"/n/"+name, c, nil, 0); err != nil {
		t.Fatal(err)
	}
}

// However many watches end at once, the others go on: with one processor, where whoever sends runs
// on until it has to wait, the library's in-process stream blocks itself within a hundred rounds.
func TestWatchesThatEndTogetherLeaveOthersAlone(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := clientv3.WithRequireLeader(t.Context())
	stays := c.Watch(ctx, "/stays", clientv3.WithPrefix())
	for round := range 300 {
		some, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() { c.Watch(some, fmt.Sprintf("/ends/%d", i), clientv3.WithPrefix()) })
		}
		wg.Wait()
		cancel()
		if _, err := c.Put(ctx, "/stays/a", fmt.Sprint(round)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-stays:
		case <-time.After(time.Minute):
			t.Fatalf("round %d: the remaining watch gets no events any more", round)
		}
	}
}

// A kind's list and its watch with initial events are as new as etcd also beside watches of other
// kinds that begin after etcd's revision, which hold up progress on a stream that they share.
// row: API-10
func TestCacheAdvancesBesideWatchesThatBeginNow(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	first := kindStorage(t, s, "first")
	putConfigMap(t, first, "first", "a")
	for round := range 5 {
		kind := fmt.Sprintf("kind%d", round)
		other := kindStorage(t, s, kind)
		putConfigMap(t, other, kind, "a")
		kindStorage(t, s, kind+"x") // watches from the revision after the present one on
		list := &corev1.ConfigMapList{}
		o := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
		if err := first.GetList(t.Context(), "/first/", o, list); err != nil {
			t.Fatal(err)
		}
		o.SendInitialEvents, o.Predicate.AllowWatchBookmarks = new(true), true
		w, err := first.Watch(t.Context(), "/first/", o)
		if err != nil {
			t.Fatal(err)
		}
		e := <-w.ResultChan()
		w.Stop()
		if e.Type != watch.Added {
			t.Errorf("round %d: %s %v, want %v", round, e.Type, e.Object, watch.Added)
		}
	}
}

// Every cache reaches what etcd has without anybody asking for it, whoever writes.
// row: API-10
func TestAllCachesFollowEtcd(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	kinds := map[string]storage.Interface{}
	for n := range 20 {
		kind := fmt.Sprintf("kind%d", n)
		kinds[kind] = kindStorage(t, s, kind)
	}
	for round := range 3 {
		kind := fmt.Sprintf("kind%d", round)
		putConfigMap(t, kinds[kind], kind, "a")
		want := uint64(s.embedded.Server.KV().Rev())
		for n, c := range s.shared.caches {
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				at, err := c.cache.LastSyncResourceVersion()
				if err == nil && at >= want {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("cache %d is at %d (%v), etcd at %d", n, at, err, want)
				}
			}
		}
	}
	if err := s.CheckCaches(); err != nil {
		t.Error(err)
	}
}

// undecodableTransformer is a transformer that lets no event of a watch through while it is on.
type undecodableTransformer struct {
	value.Transformer
	on atomic.Bool
}

// TransformFromStorage implements value.Transformer.
func (d *undecodableTransformer) TransformFromStorage(ctx context.Context, data []byte,
	c value.Context) ([]byte, bool, error) {
	if d.on.Load() {
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return d.Transformer.TransformFromStorage(ctx, data, c)
}

// A watch of a cache that brings nothing is found, named by the readiness check, and opened anew;
// a new one that works makes the cache follow again, without the loss of an event.
// row: API-10
func TestUnresponsiveWatchIsReopened(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	d := &undecodableTransformer{Transformer: identity.NewEncryptCheckTransformer()}
	kinds := kindStorage(t, s, "kinds", d)
	s.shared.cancel() // the test compares
	now := time.Now()
	compare := func(n int) {
		time.Sleep(1100 * time.Millisecond) // a watch that ends within a second makes the library list anew
		for range n {
			now = now.Add(progressPeriod)
			s.shared.compareCaches(t.Context(), uint64(s.embedded.Server.KV().Rev()), now)
		}
	}
	w, err := kinds.Watch(t.Context(), "/kinds/", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	d.on.Store(true)
	putConfigMap(t, kinds, "kinds", "a")
	compare(1 + reopenAfter)
	if got := s.shared.caches[0].source.stream; got != 1 {
		t.Fatalf("the watch was opened anew %d times, want 1", got)
	}
	if err := s.CheckCaches(); err != nil {
		t.Errorf("too soon: %v, want no error", err)
	}
	compare(reopenAfter)
	compare(stalledAfter - 2*reopenAfter)
	var stalled *StalledCaches
	if err := s.CheckCaches(); !errors.As(err, &stalled) ||
		!strings.Contains(err.Error(), "watch cache of kinds has stood at revision") {
		t.Fatalf("not found: %v", err)
	}
	d.on.Store(false)
	compare(3*reopenAfter - stalledAfter)
	select {
	case e := <-w.ResultChan():
		if e.Type != watch.Added {
			t.Errorf("got %s %v, want Type Added", e.Type, e.Object)
		}
	case <-time.After(time.Minute):
		t.Fatal("the event never came")
	}
	for end := time.Now().Add(time.Minute); s.CheckCaches() != nil; compare(1) {
		if time.Now().After(end) {
			t.Fatalf("got %v, want no error in time", s.CheckCaches())
		}
	}
}

// A cache is asked about whenever it is behind, reopened only when it stands still, and never
// stalled while it moves or is where etcd is.
func TestCachesThatMoveAreLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var state cacheState
		at, etcd, still := uint64(1), uint64(1), 0
		for range rapid.IntRange(1, 200).Draw(t, "comparisons") {
			etcd += rapid.Uint64Range(0, 3).Draw(t, "writes")
			moved := rapid.IntRange(0, 30).Draw(t, "moves") == 0 && at < etcd
			if moved {
				at += rapid.Uint64Range(1, etcd-at).Draw(t, "by")
			}
			known := state.target != 0
			var step cacheAction
			state, step = state.next(at, etcd, time.Unix(0, 0))
			if still++; at >= etcd || moved || !known {
				still = 0
			}
			switch {
			case at >= etcd && (step != noAction || state != cacheState{}):
				t.Fatalf("at %d of %d: %v, %+v", at, etcd, step, state)
			case at < etcd && (step == reopenWatch) != (still > 0 && still%reopenAfter == 0):
				t.Fatalf("still for %d: %v", still, step)
			case at < etcd && step == noAction:
				t.Fatalf("at %d of %d and nothing is done", at, etcd)
			case state.stalled() != (still >= stalledAfter):
				t.Fatalf("still for %d: stalled is %v", still, state.stalled())
			}
		}
	})
}
