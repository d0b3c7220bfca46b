package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/apiserver/sharedwatch"
)

// podStorage is the storage of Pods as the server has it.
func podStorage(t *testing.T) *sharedwatch.Storage {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	v1 := corev1.SchemeGroupVersion
	config := storagebackend.NewDefaultConfig(Prefix, runtime.NewCodec(scheme.Codecs.LegacyCodec(v1),
		scheme.Codecs.UniversalDecoder(v1))).ForResource(schema.GroupResource{Resource: "pods"})
	node := func(o runtime.Object) string { return o.(*corev1.Pod).Spec.NodeName }
	attrs := func(o runtime.Object) (labels.Set, fields.Set, error) {
		p := o.(*corev1.Pod)
		return p.Labels, fields.Set{"metadata.name": p.Name, "metadata.namespace": p.Namespace,
			"spec.nodeName": node(p)}, nil
	}
	key := func(o runtime.Object) (string, error) {
		p := o.(*corev1.Pod)
		return podKey(p.Namespace, p.Name), nil
	}
	pods, destroy, err := s.shared.newStorage(config, "/pods", key, func() runtime.Object { return &corev1.Pod{} },
		func() runtime.Object { return &corev1.PodList{} },
		attrs, storage.IndexerFuncs{"spec.nodeName": node}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	// the cache says no other way that it is filled
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		list := &corev1.PodList{}
		err := pods.GetList(t.Context(), "/pods/", storage.ListOptions{ResourceVersion: "0", Recursive: true,
			Predicate: storage.Everything}, list)
		if err == nil {
			return pods.(*sharedwatch.Storage)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func podKey(namespace, name string) string { return "/pods/" + namespace + "/" + name }

// closableWatcher is a watch cache that ends watches on request, as one does that has no
// room for an event.
type closableWatcher struct {
	sharedwatch.Cache
	mu   sync.Mutex
	open []watch.Interface
}

func (c *closableWatcher) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	w, err := c.Cache.Watch(ctx, key, o)
	if err == nil {
		c.mu.Lock()
		c.open = append(c.open, w)
		c.mu.Unlock()
	}
	return w, err
}

func (c *closableWatcher) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.open {
		w.Stop()
	}
	c.open = nil
}

// receivedEvent is an event as it is compared.
type receivedEvent struct {
	typ    watch.EventType
	object string // but for bookmarks, whose revision is the current one
	at     uint64
	marked bool
}

func collectEvents(e watch.Event) (receivedEvent, error) {
	o := e.Object
	if c, ok := o.(runtime.CacheableObject); ok {
		o = c.GetObject()
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return receivedEvent{}, fmt.Errorf("%s of %v: %w", e.Type, o, err)
	}
	at, err := storage.APIObjectVersioner{}.ObjectResourceVersion(o)
	h := receivedEvent{typ: e.Type, at: at, object: fmt.Sprintf("%s/%s %v %s %s", m.GetNamespace(), m.GetName(),
		m.GetLabels(), o.(*corev1.Pod).Spec.NodeName, m.GetResourceVersion())}
	if e.Type == watch.Bookmark {
		h.object = ""
		h.marked, err = storage.HasInitialEventsEndBookmarkAnnotation(o)
	}
	return h, err
}

// watchPair is a watcher that shares and one of the library's own, with the same options.
type watchPair struct {
	what     string
	plain    bool // begins with the state of things, which nothing ends
	shared   watch.Interface
	received []receivedEvent
	own      chan receivedEvent // what the other got; there is room for all
	stop     context.CancelFunc
}

// read takes up to n events of the watcher that shares, until the one that has the revision at the
// latest.
func (p *watchPair) read(t *rapid.T, n int, last uint64) {
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	for ; n > 0 && (last == 0 || len(p.received) == 0 || p.received[len(p.received)-1].at < last); n-- {
		wait := timeout.C
		if last == 0 {
			closed := make(chan time.Time)
			close(closed)
			wait = closed // what is there
		}
		select {
		case e, ok := <-p.shared.ResultChan():
			if !ok {
				t.Fatalf("%s ended after %v", p.what, p.received)
			}
			h, err := collectEvents(e)
			if err != nil {
				t.Fatal(err)
			}
			p.received = append(p.received, h)
		case <-wait:
			if last != 0 {
				t.Fatalf("%s waits for revision %d after %v", p.what, last, p.received)
			}
			return
		}
	}
}

// watchTest is what a run of the property does things to.
type watchTest struct {
	sendsState bool                 // the shared storage sends the state itself; else the library does
	pods       *sharedwatch.Storage // fans out what cache brings
	library    storage.Interface
	cache      *closableWatcher
	spaces     []string
	revisions  []uint64
	pairs      []*watchPair
}

// write changes one Pod and returns the revision.
func (w *watchTest) write(t *rapid.T, namespace, name string, change func(p *corev1.Pod)) {
	out, key := &corev1.Pod{}, podKey(namespace, name)
	err := w.pods.GuaranteedUpdate(t.Context(), key, out, true, nil,
		func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			p := in.(*corev1.Pod)
			p.Name, p.Namespace = name, namespace
			change(p)
			return p, nil, nil
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.wrote(t, out)
}

func (w *watchTest) wrote(t *rapid.T, p *corev1.Pod) {
	at, err := storage.APIObjectVersioner{}.ObjectResourceVersion(p)
	if err != nil {
		t.Fatal(err)
	}
	w.revisions = append(w.revisions, at)
}

func (w *watchTest) remove(t *rapid.T, namespace, name string) {
	out := &corev1.Pod{}
	err := w.pods.Delete(t.Context(), podKey(namespace, name), out, nil, storage.ValidateAllObjectFunc, nil,
		storage.DeleteOptions{})
	if storage.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	w.wrote(t, out)
}

// waitFresh waits until the cache has the last write.
func (w *watchTest) waitFresh(t *rapid.T) {
	o := storage.ListOptions{Recursive: true, Predicate: storage.Everything,
		ResourceVersion: fmt.Sprint(w.revisions[len(w.revisions)-1])}
	if err := w.library.GetList(t.Context(), "/pods/", o, &corev1.PodList{}); err != nil {
		t.Fatal(err)
	}
}

// join opens a pair of watchers, from any revision since the beginning or with the state first.
func (w *watchTest) join(t *rapid.T) {
	o := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	o.Predicate.GetAttrs = nil // the cache has its own
	o.Predicate.IndexFields = []string{"spec.nodeName"}
	o.Predicate.AllowWatchBookmarks = rapid.Bool().Draw(t, "bookmarks")
	if rapid.Bool().Draw(t, "by label") {
		o.Predicate.Label = labels.SelectorFromSet(labels.Set{"a": "1"})
	}
	if rapid.IntRange(0, 3).Draw(t, "by node") == 0 {
		o.Predicate.Field = fields.OneTermEqualSelector("spec.nodeName", "n1")
	}
	key, ctx := "/pods/", t.Context()
	if n := rapid.IntRange(0, 2).Draw(t, "where"); n < len(w.spaces) {
		key += w.spaces[n] + "/"
		ctx = request.WithNamespace(ctx, w.spaces[n])
	}
	plain := false
	switch rapid.IntRange(0, 5).Draw(t, "state first") {
	case 0:
		o.SendInitialEvents, o.ResourceVersionMatch, o.Predicate.AllowWatchBookmarks = new(true),
			metav1.ResourceVersionMatchNotOlderThan, true
	case 1:
		o.ResourceVersion, plain = rapid.SampledFrom([]string{"", "0"}).Draw(t, "any"), true
		o.Predicate.AllowWatchBookmarks = false
		w.waitFresh(t) // both begin with the state that the cache has then
	default:
		o.ResourceVersion = fmt.Sprint(rapid.SampledFrom(w.revisions).Draw(t, "from"))
	}
	ctx, stop := context.WithCancel(ctx)
	p := &watchPair{plain: plain, what: fmt.Sprintf("%s %s,%s from %q", key, o.Predicate.Label, o.Predicate.Field,
		o.ResourceVersion), own: make(chan receivedEvent, 100_000), stop: stop}
	own, err := w.library.Watch(ctx, key, o)
	if err != nil {
		t.Fatal(err)
	}
	if p.shared, err = w.pods.Watch(ctx, key, o); err != nil {
		t.Fatal(err)
	}
	if plain && !w.sendsState {
		p.shared = drain(p.shared)
	}
	go func() {
		defer close(p.own)
		for e := range own.ResultChan() {
			h, err := collectEvents(e)
			if err != nil {
				h.object = err.Error()
			}
			p.own <- h
		}
	}()
	w.pairs = append(w.pairs, p)
}

// drain reads a watch of the library as fast as it comes: the library ends one of its own watchers
// that does not read.
func drain(w watch.Interface) watch.Interface {
	out := make(chan watch.Event, 100_000)
	go func() {
		defer close(out)
		for e := range w.ResultChan() {
			out <- e
		}
	}()
	return drainedWatch{w, out}
}

// drainedWatch is a watch whose events are all read.
type drainedWatch struct {
	watch.Interface
	out <-chan watch.Event
}

func (w drainedWatch) ResultChan() <-chan watch.Event { return w.out }

// A watcher that shares gets what one gets that does not, whenever it joins, however slowly it
// reads, whatever happens to the watch of its group.
// row: API-10
func TestSharedWatchesAreAsOnesOwn(t *testing.T) {
	base := podStorage(t)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		cache := &closableWatcher{Cache: base.Interface.(resumingStorage).Interface}
		shared := sharedwatch.New(base.Interface, cache)
		sendsState := rapid.Bool().Draw(t, "states are told")
		if sendsState {
			shared.WithInitialEvents(func() runtime.Object { return &corev1.Pod{} },
				func() runtime.Object { return &corev1.PodList{} })
		}
		w := &watchTest{pods: shared, library: base.Interface, cache: cache, sendsState: sendsState,
			spaces: []string{fmt.Sprintf("x%d", round), fmt.Sprintf("y%d", round)}}
		space := func() string { return rapid.SampledFrom(w.spaces).Draw(t, "namespace") }
		name := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") }
		w.write(t, w.spaces[0], "first", func(*corev1.Pod) {})
		cuts := 0
		one := func() *watchPair { return rapid.SampledFrom(w.pairs).Draw(t, "watcher") }
		defer func() {
			for _, p := range w.pairs {
				p.stop()
			}
			for _, n := range w.spaces { // a watcher that reads slowly has room for the state of one run
				for _, name := range []string{"a", "b", "c", "first", "last"} {
					w.remove(t, n, name)
				}
			}
		}()
		w.join(t)
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				label, node := rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label"),
					rapid.SampledFrom([]string{"", "n1"}).Draw(t, "node")
				w.write(t, space(), name(),
					func(p *corev1.Pod) { p.Labels, p.Spec.NodeName = map[string]string{"a": label}, node })
			},
			"remove": func(t *rapid.T) { w.remove(t, space(), name()) },
			"join":   w.join,
			"read":   func(t *rapid.T) { one().read(t, rapid.IntRange(1, 20).Draw(t, "events"), 0) },
			"cut": func(*rapid.T) {
				if cuts++; cuts < 4 { // a cache that does nothing else is given up
					cache.closeAll()
				}
			},
			"leave": func(t *rapid.T) {
				if len(w.pairs) > 1 {
					p := w.pairs[len(w.pairs)-1]
					w.pairs = w.pairs[:len(w.pairs)-1]
					p.stop()
				}
			},
		})
		for _, n := range w.spaces { // every watcher receives the last one, or of the one before
			w.write(t, n, "last", func(p *corev1.Pod) { p.Labels, p.Spec.NodeName = map[string]string{"a": "1"}, "n1" })
		}
		last := w.revisions[len(w.revisions)-1]
		for _, p := range w.pairs {
			until := last
			if p.what[:len("/pods/")+len(w.spaces[0])] == "/pods/"+w.spaces[0] {
				until = w.revisions[len(w.revisions)-2]
			}
			p.read(t, 10_000, until)
			compare(t, p, until)
		}
	})
}

// compare ends a pair; both must have got the same up to a revision, and bookmarks that are true.
func compare(t *rapid.T, p *watchPair, until uint64) {
	var own []receivedEvent
	for h := range p.own {
		if own = append(own, h); h.at >= until {
			break
		}
	}
	p.stop()
	plain := func(all []receivedEvent) (out []receivedEvent) {
		for _, h := range all {
			if h.marked {
				h.at = 0
			}
			if h.marked || h.typ != watch.Bookmark {
				out = append(out, h)
			}
		}
		return out
	}
	if got, want := plain(p.received), plain(own); !slices.Equal(got, want) {
		t.Fatalf("%s:\ngot  %v\nwant %v", p.what, got, want)
	}
	high := uint64(0)
	ordered := p.received[max(0, slices.IndexFunc(p.received, func(h receivedEvent) bool { return h.marked })):]
	if p.plain {
		return
	}
	for _, h := range ordered {
		if h.at < high || h.at == high && h.typ != watch.Bookmark {
			t.Fatalf("%s: %v after revision %d", p.what, h, high)
		}
		high = h.at
	}
}
