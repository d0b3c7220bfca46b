package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/test/instance"
)

const (
	// watcherCount is the number of watchers.
	watcherCount = 100
	// sentAt is the annotation with the time at which a write was sent.
	sentAt = "bench.gantry/sent"
)

// writers are clients that write Pods to a server while others watch.
type writers struct {
	*server
	pace
	namespace string
}

// pace is how Pods are written.
type pace struct {
	name     string
	clients  int
	pods     int
	pause    time.Duration // between writes of one client; 0 writes as fast as they are taken
	together bool          // the clients write at the same moments, not one after the other
}

// load measures writes before watchers, by `gantry up` and the server that the flags name: 8 and 32
// clients that create and then patch 10,000 Pods, and 8 that write 2,000 at 200 a second, one after
// the other or at the same moments. All go through HTTPS on loopback, while 100 watchers follow all
// Pods, ten to a connection (see watchers). Clients and watchers share the machine with the server.
//
// "watch" is the time from the sending of a write to the event's arrival at a watcher, over all
// watchers; "after the answer" the part of it that comes after the writer had its answer. "CPU per
// write" counts the server's processes alone, the delivery to the watchers included. A watcher that
// is cut off because it is too slow goes on from its last event.
func (b *bench) load(ctx context.Context) ([]result.Figure, error) {
	const paced = 40 * time.Millisecond // 8 clients: 200 writes a second
	var figures []result.Figure
	for _, p := range []pace{
		{name: "8 clients at 200 per second", clients: 8, pods: 2000, pause: paced},
		{name: "8 clients at once at 200 per second", clients: 8, pods: 2000, pause: paced, together: true},
		{name: "8 clients", clients: 8, pods: 10_000}, {name: "32 clients", clients: 32, pods: 10_000},
	} {
		p.pods = b.times(p.pods)
		of, err := b.loadOwn(ctx, p)
		if err != nil {
			return nil, err
		}
		figures = append(figures, of...)
		if b.other.kubeconfig == "" {
			continue
		}
		pids, err := b.other.processes()
		if err != nil {
			return nil, err
		}
		other := &server{name: "other", pids: pids, instance: instance.Foreign(b.binary, b.other.kubeconfig)}
		if of, err = other.loaded(ctx, p); err != nil {
			return nil, fmt.Errorf("%s: %w", b.other.name, err)
		}
		figures = append(figures, of...)
	}
	return figures, nil
}

// loadOwn measures an instance of its own.
func (b *bench) loadOwn(ctx context.Context, p pace) ([]result.Figure, error) {
	i, _, err := b.running(ctx)
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return nil, err
	}
	defer b.profile(ctx, i, fmt.Sprintf("load-%d-%s", p.clients, p.pause), 5*time.Second)()
	return (&server{name: "gantry up", pids: []int{i.PID("up")}, instance: i}).loaded(ctx, p)
}

// loaded measures writes to a server with watchers.
func (s *server) loaded(ctx context.Context, p pace) ([]result.Figure, error) {
	var err error
	if s.cluster, err = connect(ctx, s.instance); err != nil {
		return nil, err
	}
	w := writers{server: s, pace: p, namespace: gated(p.clients, "").Namespace + "-" + p.pause.String()}
	if p.together {
		w.namespace += "-at-once"
	}
	if err := w.prepare(ctx, w.pod("first")); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := w.watch(ctx)
	if err != nil {
		return nil, err
	}
	before, begin := w.cpu(), time.Now()
	var events []arrived
	var lost error
	var wg sync.WaitGroup
	wg.Go(func() { events, lost = seen.collect(ctx, 2*w.pods*watcherCount) })
	answers, err := w.write(ctx)
	took := time.Since(begin)
	if err != nil {
		stop()
	}
	wg.Wait()
	if err := errors.Join(err, lost); err != nil {
		return nil, err
	}
	cpu := w.cpu() - before
	name := s.name + "/" + p.name
	return append(latenciesOf(name, answers, events),
		result.Value(name+"/writes", "/s", float64(len(answers))/took.Seconds()),
		result.Value(name+"/CPU per write", "ms", result.Milliseconds(cpu)/float64(len(answers))),
		result.Value(name+"/RSS", "MiB", mib(s.rss())),
		result.Value(name+"/watchers cut off", "watchers", float64(seen.cut.Load()))), nil
}

// latenciesOf returns the figures of the writes' responses, by send time, and of the watchers'
// events.
func latenciesOf(name string, answers map[int64]time.Duration, events []arrived) []result.Figure {
	var watch, after []time.Duration
	for _, e := range events {
		watch, after = append(watch, e.after), append(after, e.after-answers[e.sent])
	}
	return []result.Figure{
		result.Durations(name+"/write", slices.Collect(maps.Values(answers))), result.Durations(name+"/watch", watch),
		result.Durations(name+"/after the answer", after),
	}
}

// rss returns the memory of the server's processes in KiB.
func (s *server) rss() (sum int64) {
	for _, pid := range s.pids {
		sum += read(fmt.Sprintf("/proc/%d", pid)).rss
	}
	return sum
}

func (w *writers) pod(name string) *v1.Pod {
	p := gated(w.clients, name)
	p.Namespace = w.namespace
	return p
}

// write creates all Pods, then patches them; it returns each call's duration by send time.
func (w *writers) write(ctx context.Context) (map[int64]time.Duration, error) {
	pods := w.client.CoreV1().Pods(w.namespace)
	create := func(n, now int64) error {
		p := w.pod(fmt.Sprintf("p-%d", n))
		p.Annotations = map[string]string{sentAt: fmt.Sprint(now)}
		_, err := pods.Create(ctx, p, metav1.CreateOptions{})
		return err
	}
	patch := func(n, now int64) error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, sentAt, now)
		_, err := pods.Patch(ctx, fmt.Sprintf("p-%d", n), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	all := map[int64]time.Duration{}
	return all, errors.Join(w.each(ctx, create, all), w.each(ctx, patch, all))
}

// each calls once per Pod, from all clients, and records durations.
func (w *writers) each(ctx context.Context, call func(n, now int64) error, all map[int64]time.Duration) error {
	var next atomic.Int64
	var mu sync.Mutex
	var group errgroup.Group
	for client := range w.clients {
		group.Go(func() error {
			if !w.together {
				if err := sleep(ctx, w.pause*time.Duration(client)/time.Duration(w.clients)); err != nil {
					return err
				}
			}
			for n := next.Add(1); n <= int64(w.pods); n = next.Add(1) {
				begin := time.Now()
				if err := call(n, begin.UnixNano()); err != nil {
					return err
				}
				took := time.Since(begin)
				mu.Lock()
				all[begin.UnixNano()] = took // two clients in the same nanosecond count as one
				mu.Unlock()
				if err := sleep(ctx, w.pause-took); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// watch opens the watchers.
func (w *writers) watch(ctx context.Context) (*watchers, error) {
	cfg, err := w.instance.Admin(ctx)
	if err != nil {
		return nil, err
	}
	now, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	from, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	a := &watchers{got: make(chan []arrived, watcherCount), failed: make(chan error, watcherCount)}
	for range watcherCount / perConnection {
		if err := a.connect(ctx, cfg, "/api/v1/namespaces/"+w.namespace+"/pods", from); err != nil {
			return nil, err
		}
	}
	return a, w.verify(ctx, a, now.ResourceVersion)
}

// verify runs one more watcher through client-go, and reports an error to the watchers unless each
// Pod is added once and then modified once.
func (w *writers) verify(ctx context.Context, a *watchers, from string) error {
	open := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return w.client.CoreV1().Pods(w.namespace).Watch(ctx, o)
	}
	follow, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{WatchFuncWithContext: open})
	if err != nil {
		return err
	}
	a.verified = make(chan error, 1)
	go func() {
		defer follow.Stop()
		a.verified <- w.addedThenModified(follow.ResultChan())
	}()
	return nil
}

// addedThenModified reads events until each Pod was added and modified.
func (w *writers) addedThenModified(events <-chan watch.Event) error {
	last := map[string]watch.EventType{}
	done := 0
	for e := range events {
		p, ok := e.Object.(*v1.Pod)
		if !ok {
			return fmt.Errorf("client-go got %v", e.Object)
		}
		switch was := last[p.Name]; {
		case was == "" && e.Type == watch.Added:
		case was == watch.Added && e.Type == watch.Modified:
			done++
		default:
			return fmt.Errorf("client-go saw %s of %s after %q", e.Type, p.Name, was)
		}
		if last[p.Name] = e.Type; done == w.pods {
			return nil
		}
	}
	return fmt.Errorf("client-go saw %d of %d Pods added and modified", done, w.pods)
}
