package main

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/gantry-project/gantry/test/replay/instance"
)

const (
	watchers = 100
	// sentAt is the annotation by which watchers know when a write was sent.
	sentAt = "bench.gantry/sent"
)

// loadFindings is what was found out about the figures.
const loadFindings = "Half of what a write costs before 100 watchers is telling them. An event is encoded once, but each watcher's copy passed three goroutines, " +
	"and two or three of them filled HTTP/2's buffer of 4 KiB and were a TLS record and a system call. " +
	"Now a watcher's handler rests after a flush where many watch, for half a millisecond to eight, by figures (`internal/apiserver/outlet`), " +
	"and what is written to a connection in a burst leaves in one system call: at 200 writes per second 16 system calls per write instead of 63. In pairs, " +
	"a write before 100 watchers took 2.7 ms of processor instead of 3.2 (paced), " +
	"2.5 instead of 2.7 (unpaced).\n\n" +
	"The library's watch cache hands each event to each watcher through a goroutine and two channels with room for ten (up to 1,000 in a cache that has seen thousands of " +
	"events within 75 s). With 32 writers these goroutines stand ready behind the writers' (2 ms at p50, 20 ms at p99) while the cache hands out a burst; it waits for whoever " +
	"has no room 50 ms of each second in all, then it cuts off all of them at once, and what a watcher missed is copied and encoded for it alone. Now watchers of the same " +
	"objects with the same selectors share one watch of the cache (`internal/apiserver/fanout`): it fills a window of up to 4,096 events, in which each watcher has a place, " +
	"and the watchers' channels, many events at once and with room for 64; who lags is fed from the window. When the cache cuts off the shared watch, another one goes on from " +
	"its last event. Of the processor's time with 32 clients the shared watch takes 2 % where the watchers' goroutines took 8, and writing to the connections 13 where it was " +
	"24, as more events travel in a piece. In two pairs with 32 clients on a busy machine (1,500 and 1,200 Pods) a write took 2.8 and 2.2 ms of processor instead of 3.1 and " +
	"2.7, nobody was cut off instead of 183 and 186 watchers, and events came 38 and 24 ms after the answer at p50 instead of 58 and 55. Paced at 200 writes per second it took " +
	"3.1 ms instead of 4.2 in one run (kube-apiserver in the same run: 5.0) and 3.7 instead of 3.9 in another, with 8 clients 2.6 instead of 3.2 (4.2) and 3.4 instead of 3.6; " +
	"what else the machine did then rules the p99 after the answer (paced 52 ms instead of 66, kube-apiserver 85, in the one; 218 instead of 107 in the other). Before, the " +
	"cache stepped back in a burst until those whom it had told had run, which is not needed any more. Longer rests of the outlet in bursts, for which there is room now, were " +
	"tried in one pair: 2.5 ms instead of 2.6, which says nothing.\n\n" +
	"Beside kube-apiserver v1.37.2 with etcd v3.7.3, in turns, with 32 clients and 1,500 Pods on that busy machine, two runs: 2.5 and 2.2 ms of processor per write " +
	"(kube-apiserver: 4.1 when new, 3.3 when its cache had grown by the first run), no watchers cut off (1,175 and 4), 45 and 27 ms after the answer at p50 (84 and 79).\n\n" +
	"The table was taken on a machine with nothing else to do, kube-apiserver v1.37.2 with etcd v3.7.3 in turns with Gantry. kube-apiserver was one process for all its rows, so that the room of its cache had grown, and it has no scheduler, controllers and kubelet beside it. A paced write took 3.7 and 3.2 ms of processor (kube-apiserver: 5.7 and 5.3), with 8 clients 2.5 (3.7), with 32 clients 2.1 (3.2), where events came 11 ms after the answer at p50 (149) and nobody was cut off. Before watchers shared, an hour in which the machine was half as fast, it was 3.3 ms (2.5), 77 ms after the answer (with it), and 244 watchers were cut off.\n\n" +
	"The budget of 10 ms is kept at 200 writes per second: an event is with its watchers 0.7 ms after the answer at p50 and 8.3 at p99 when clients take turns (kube-apiserver: 0.6 and 14), 1.1 and 9.9 when eight write at the same moment (0.8 and 15), which asks for 800 events at once every 40 ms; it was 14 and 25 at p99 before. At full speed two cores are shared by 32 writers, server and watchers: 162 ms at p99 (883). Counted from the sending it is the write's own time that rules (19 ms at p99; kube-apiserver: 39). The rests of the outlet cost less than a millisecond here."

// crowd is a number of clients that write Pods to a server while others watch.
type crowd struct {
	*taker
	pace
	namespace string
}

// pace is how a crowd writes.
type pace struct {
	name    string
	clients int
	pods    int
	pause   time.Duration // between writes of one client; 0 writes as fast as they are taken
	chorus  bool          // the clients write at the same moments, not one after the other
}

// loads measures writes and watches: 8 and 32 clients that create and patch 10,000 Pods before 100 watchers, and 8 that write 200 times a second.
func (b *bench) loads(ctx context.Context) error {
	var rows [][]string
	for _, p := range []pace{
		{name: "8, 200 writes/s", clients: 8, pods: 2000, pause: 40 * time.Millisecond}, {name: "8 at once, 200 writes/s", clients: 8, pods: 2000, pause: 40 * time.Millisecond, chorus: true},
		{name: "8", clients: 8, pods: 10_000}, {name: "32", clients: 32, pods: 10_000},
	} {
		p.pods = b.times(p.pods)
		cells, err := b.loadOnce(ctx, p)
		if err != nil {
			return err
		}
		rows = append(rows, append([]string{"gantry up", p.name}, cells...))
		if b.other.kubeconfig == "" {
			continue
		}
		pids, err := b.other.processes()
		if err != nil {
			return err
		}
		if cells, err = b.before(ctx, instance.Foreign(b.binary, b.other.kubeconfig), pids, p); err != nil {
			return fmt.Errorf("%s: %w", b.other.name, err)
		}
		rows = append(rows, append([]string{b.other.name, p.name}, cells...))
	}
	b.page.add(section{
		Title: "Writes before watchers",
		How: fmt.Sprintf("10,000 Pods are created and then patched once each through HTTPS on loopback while %d watchers follow all of them, ten to a connection; "+
			"all clients share the machine's two cores with the server. The watchers stand for clients on other machines and cost little: one goroutine reads a connection's HTTP/2 frames and takes from each event its revision, which must rise, and when its write was sent; "+
			"nothing is decoded, and the windows are those of client-go. One more watcher is client-go's own and checks that each Pod is added once and modified once. "+
			"*Watch* is the time from the sending of a write to the event's arrival at a watcher, over all watchers; *after the answer* the part of it that comes after the writer had its answer. "+
			"*ms of processor per write* counts the server's processes alone, the delivery to the watchers included. A watcher that is cut off because it is too slow goes on from its last event. "+
			"In the first rows 2,000 Pods are written at a fixed pace, by clients that take turns or that all write at the same moments.\n\n", watchers) + loadFindings,
		Head: []string{"Server", "Clients", "Writes/s", "write p50, ms", "write p99, ms", "watch p50, ms", "watch p99, ms", "after the answer p50, ms", "p99, ms",
			"ms of processor per write", "RSS, MiB", "watchers cut off"},
		Rows:   rows,
		Budget: "watch p99 ≤ 10 ms with 100 watchers",
	})
	return nil
}

// loadOnce measures on an instance of its own.
func (b *bench) loadOnce(ctx context.Context, p pace) ([]string, error) {
	i, _, err := b.running(ctx)
	if i != nil {
		defer b.remove(i)
	}
	if err != nil {
		return nil, err
	}
	defer b.profile(ctx, i, fmt.Sprintf("load-%d-%s", p.clients, p.pause), 5*time.Second)()
	return b.before(ctx, i, []int{i.PID("up")}, p)
}

// before measures writes before watchers on a server whose processes are given.
func (b *bench) before(ctx context.Context, i *instance.Instance, pids []int, p pace) ([]string, error) {
	at, err := connect(ctx, i)
	if err != nil {
		return nil, err
	}
	c := crowd{taker: &taker{cluster: at, name: p.name, pids: pids, instance: i}, pace: p, namespace: gated(p.clients, "").Namespace + "-" + p.pause.String()}
	if p.chorus {
		c.namespace += "-at-once"
	}
	if err := c.prepare(ctx, c.pod("first")); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := c.watch(ctx)
	if err != nil {
		return nil, err
	}
	before, begin := c.cpu(), time.Now()
	var late []arrived
	var lost error
	var wg sync.WaitGroup
	wg.Go(func() { late, lost = seen.collect(ctx, 2*c.pods*watchers) })
	answers, err := c.write(ctx)
	took := time.Since(begin)
	if err != nil {
		stop()
	}
	wg.Wait()
	if err := errors.Join(err, lost); err != nil {
		return nil, err
	}
	cpu := c.cpu() - before
	var rss int64
	for _, pid := range pids {
		rss += read(fmt.Sprintf("/proc/%d", pid)).rss
	}
	writes := float64(len(answers))
	var write, watch, after []time.Duration
	for _, d := range answers {
		write = append(write, d)
	}
	for _, a := range late {
		watch, after = append(watch, a.after), append(after, a.after-answers[a.sent])
	}
	return []string{
		fmt.Sprintf("%.0f", writes/took.Seconds()), ms(quantile(write, 0.5)), ms(quantile(write, 0.99)), ms(quantile(watch, 0.5)), ms(quantile(watch, 0.99)),
		ms(quantile(after, 0.5)), ms(quantile(after, 0.99)), fmt.Sprintf("%.2f", float64(cpu.Microseconds())/1000/writes), mib(rss), fmt.Sprint(seen.cut.Load()),
	}, nil
}

func (c *crowd) pod(name string) *v1.Pod {
	p := gated(c.clients, name)
	p.Namespace = c.namespace
	return p
}

// write creates all Pods, then patches them; it returns how long each call took, by the time it was sent at.
func (c *crowd) write(ctx context.Context) (map[int64]time.Duration, error) {
	pods := c.client.CoreV1().Pods(c.namespace)
	create := func(n, now int64) error {
		p := c.pod(fmt.Sprintf("p-%d", n))
		p.Annotations = map[string]string{sentAt: fmt.Sprint(now)}
		_, err := pods.Create(ctx, p, metav1.CreateOptions{})
		return err
	}
	patch := func(n, now int64) error {
		_, err := pods.Patch(ctx, fmt.Sprintf("p-%d", n), types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, sentAt, now), metav1.PatchOptions{})
		return err
	}
	all := map[int64]time.Duration{}
	return all, errors.Join(c.each(ctx, create, all), c.each(ctx, patch, all))
}

// each calls once per Pod, from all clients, and adds how long it took.
func (c *crowd) each(ctx context.Context, call func(n, now int64) error, all map[int64]time.Duration) error {
	var next atomic.Int64
	var mu sync.Mutex
	var group errgroup.Group
	for client := range c.clients {
		group.Go(func() error {
			if !c.chorus {
				if err := sleep(ctx, c.pause*time.Duration(client)/time.Duration(c.clients)); err != nil {
					return err
				}
			}
			for n := next.Add(1); n <= int64(c.pods); n = next.Add(1) {
				begin := time.Now()
				if err := call(n, begin.UnixNano()); err != nil {
					return err
				}
				took := time.Since(begin)
				mu.Lock()
				all[begin.UnixNano()] = took // two clients in the same nanosecond count as one
				mu.Unlock()
				if err := sleep(ctx, c.pause-took); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// watch opens the watchers.
func (c *crowd) watch(ctx context.Context) (*audience, error) {
	cfg, err := c.instance.Admin(ctx)
	if err != nil {
		return nil, err
	}
	now, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	from, err := strconv.ParseUint(now.ResourceVersion, 10, 64)
	if err != nil {
		return nil, err
	}
	a := &audience{got: make(chan []arrived, watchers), failed: make(chan error, watchers)}
	for range watchers / perConnection {
		if err := a.sit(ctx, cfg, "/api/v1/namespaces/"+c.namespace+"/pods", from); err != nil {
			return nil, err
		}
	}
	return a, c.verify(ctx, a, now.ResourceVersion)
}

// verify lets one more watcher follow as client-go does, and tells the audience's failed unless each Pod is added once and then modified once.
func (c *crowd) verify(ctx context.Context, a *audience, from string) error {
	w, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return c.client.CoreV1().Pods(c.namespace).Watch(ctx, o)
	}})
	if err != nil {
		return err
	}
	a.verified = make(chan error, 1)
	go func() {
		defer w.Stop()
		a.verified <- c.twice(w.ResultChan())
	}()
	return nil
}

// twice reads events until each Pod was added and modified.
func (c *crowd) twice(events <-chan watch.Event) error {
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
		if last[p.Name] = e.Type; done == c.pods {
			return nil
		}
	}
	return fmt.Errorf("client-go saw %d of %d Pods added and modified", done, c.pods)
}
