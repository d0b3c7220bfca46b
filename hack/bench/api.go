package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// writeFindings is what was found out about the figures.
const writeFindings = "Beside kube-apiserver v1.37.2 with etcd v3.7.0, in turns in one run (its default flags but for limits of requests in flight, which do not bind; built from their modules by the same compiler; it stands alone, as `gantry server` does, while `gantry up` has scheduler, controllers and kubelet in the same process), " +
	"Pods per core-second with 1, 8 and 32 clients. In the table above, on a machine with nothing else to do, it is 1.8, 1.8 and 1.6 times for `gantry server`, 1.6, 1.4 and 1.5 times for `gantry up`: the budget of twice is missed. An hour earlier, when the same machine was half as fast, it was 2.1, 1.9 and 1.5 times, 2.0, 1.8 and 1.3 for `gantry up`. In a run on a machine that had five to nine times more to do than it has cores it was: `gantry server` 699, 1073, 1378; `gantry up` 613, 783, 1017; kube-apiserver 298, 510, 679. That is 2.3, 2.1 and 2.0 times for `gantry server`, 2.1, 1.5 and 1.5 times for `gantry up`. " +
	"Before garbage got room as soon as a process allocates much (`internal/app/pace.go`; it took 25 % of all work of loads that lasted a second, now 8 to 14 %) and before " +
	"image names were no longer taken apart at every decoding (2 %), it was 1.8, 1.4 and 1.5 times (`gantry up`: 1.6, 1.4 and 1.3). " +
	"No single thing dominates a creation: tracking of field owners 10 to 12 %, garbage 8 to 11 %, etcd with its sync 13 %, HTTP/2 and TLS 9 %, the library's filters and the choice of a route 9 %, growing stacks 6 %, admission 6 %, validation and preparing 6 %, decoding the request 6 %, " +
	"the watch cache 6 %; in `gantry up` the parts' own watches take 8 to 10 %. One growth of the stack in place of three, tried, changed nothing." +
	" Then the node authorizer and the controllers get Pods as objects from the API server's own stores, not encoded and decoded (`internal/apiserver/direct.go`), and the controllers listen to Pods with one listener in place of some twenty (`internal/control/loop`, Joint): " +
	"in 60 turns on a busy machine a creation in `gantry up` before 32 clients took 0.90 ms of processor instead of 0.95 (12,000 Pods each), and with them 219 MB lived instead of 243; in 12 turns `gantry server` took 0.80 instead of 0.86. " +
	"Tried and left out: twice the room for garbage under load (0.86 ms, but 895 MB resident instead of 600) and a tracer that leaves the context alone (nothing to be seen). " +
	"What stands between `gantry up` and twice kube-apiserver at 32 clients is not one thing: collecting garbage (15 % and more, as what lives grows with the Pods), field owners (11 %), etcd (11 %), growing stacks (7 %), which the library's own goroutines per request cause, its tracing, timing and timeouts around each request, and the parts' own knowledge of each Pod."

// turn is how long one server is loaded before the next one has its turn.
const turn = time.Second

// taker is a server that takes writes.
type taker struct {
	*cluster
	name     string
	pids     []int // whose processor time counts
	instance *instance.Instance
}

// creates measures how many Pods servers take, through HTTPS, from 1, 8 and 32 clients. They have turns, so that what else the machine does meets all of them.
func (b *bench) creates(ctx context.Context) error {
	takers, end, err := b.takers(ctx)
	defer end()
	if err != nil {
		return err
	}
	rounds := b.times(5)
	var rows [][]string
	for _, clients := range []int{1, 8, 32} {
		loads, err := b.inTurns(ctx, takers, clients, rounds)
		if err != nil {
			return err
		}
		for n, l := range loads {
			rows = append(rows, append([]string{takers[n].name, fmt.Sprint(clients)}, l.cells()...))
		}
	}
	b.page.add(section{
		Title: "Writes",
		How: fmt.Sprintf("Pods created through HTTPS on loopback by client-go (protobuf, no throttle), %d times for %s; they carry a scheduling gate, so that nothing but the API server works on them. The servers are loaded in turns. "+
			"Gantry's etcd is embedded and syncs to disk. The clients share the machine's two cores with the servers; *per core-second* counts the processor time of the server's processes alone, etcd and watchers included.\n\n", rounds, turn) + writeFindings,
		Head:   []string{"Server", "Clients", "Pods/s", "Pods per core-second", "p50, ms", "p99, ms"},
		Rows:   rows,
		Budget: "≥ 2× upstream's Pods per core-second, measured against upstream in the same run",
	})
	return nil
}

// takers starts `gantry up` and `gantry server`, and adds the server that the flags name. The function it returns ends what was started.
func (b *bench) takers(ctx context.Context) (all []*taker, end func(), err error) {
	var started []*instance.Instance
	end = func() {
		for _, i := range started {
			b.remove(i)
		}
	}
	add := func(name string, i *instance.Instance, pids ...int) error {
		c, err := connect(ctx, i)
		if err == nil {
			all = append(all, &taker{cluster: c, name: name, pids: pids, instance: i})
		}
		return err
	}
	up, _, err := b.running(ctx)
	if up != nil {
		started = append(started, up)
	}
	if err != nil {
		return nil, end, err
	}
	alone, err := instance.New(instance.Options{Binary: b.binary, BinDir: b.binDir, Split: true})
	if err != nil {
		return nil, end, err
	}
	started = append(started, alone)
	if err := alone.Start(); err != nil {
		return nil, end, err
	}
	if err := alone.WaitAPI(ctx); err != nil {
		return nil, end, err
	}
	err = errors.Join(add("gantry up", up, up.PID("up")), add("gantry server", alone, alone.PID("server")))
	if b.other.kubeconfig != "" {
		pids, bad := b.other.processes()
		err = errors.Join(err, bad, add(b.other.name, instance.Foreign(b.binary, b.other.kubeconfig), pids...))
	}
	return all, end, err
}

// other is a server that somebody else started and that is measured beside Gantry.
type other struct{ name, kubeconfig, pids string }

// processes are those whose processor time counts.
func (o other) processes() ([]int, error) {
	var all []int
	for pid := range strings.SplitSeq(o.pids, ",") {
		n, err := strconv.Atoi(pid)
		if err != nil {
			return nil, fmt.Errorf("-pids: %w", err)
		}
		all = append(all, n)
	}
	return all, nil
}

// taken is what a server took.
type taken struct {
	pods      int
	took, cpu time.Duration
	lat       []time.Duration
}

func (t taken) cells() []string {
	return []string{fmt.Sprintf("%.0f", float64(t.pods)/t.took.Seconds()), fmt.Sprintf("%.0f", float64(t.pods)/t.cpu.Seconds()), ms(quantile(t.lat, 0.5)), ms(quantile(t.lat, 0.99))}
}

// inTurns loads the servers one after the other, again and again, and says what each took in all.
func (b *bench) inTurns(ctx context.Context, takers []*taker, clients, rounds int) ([]taken, error) {
	all := make([]taken, len(takers))
	for _, t := range takers {
		if err := t.prepare(ctx, gated(clients, "first")); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		defer b.profile(ctx, t.instance, fmt.Sprintf("api-%s-%d", strings.ReplaceAll(t.name, " ", "-"), clients), time.Duration(rounds*len(takers))*turn)()
	}
	var next atomic.Int64
	for range rounds {
		for n, t := range takers {
			before, begin := t.cpu(), time.Now()
			lat, err := load(ctx, t.cluster, clients, &next)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			all[n].pods += len(lat)
			all[n].took += time.Since(begin)
			all[n].cpu += t.cpu() - before
			all[n].lat = append(all[n].lat, lat...)
		}
	}
	return all, nil
}

// cpu is the processor time of the server's processes so far.
func (t *taker) cpu() (sum time.Duration) {
	for _, pid := range t.pids {
		sum += read(fmt.Sprintf("/proc/%d", pid)).cpu
	}
	return sum
}

// prepare makes the namespace of a first Pod and, as a server alone has no controllers, its service account.
func (t *taker) prepare(ctx context.Context, first *v1.Pod) error {
	if _, err := t.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first.Namespace}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: first.Namespace}}
	if _, err := t.client.CoreV1().ServiceAccounts(first.Namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return t.create(ctx, first) // waits until admission knows the account
}

func gated(clients int, name string) *v1.Pod {
	p := sleeper(name)
	p.Namespace = fmt.Sprintf("load-%d-%d", os.Getpid(), clients) // another server may have those of another run
	p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gantry.example/bench"}}
	return p
}

// load creates Pods from several clients for a turn and returns each call's time.
func load(ctx context.Context, c *cluster, clients int, next *atomic.Int64) ([]time.Duration, error) {
	end := time.Now().Add(turn)
	var mu sync.Mutex
	var all []time.Duration
	var group errgroup.Group
	for range clients {
		group.Go(func() error {
			var own []time.Duration
			for time.Now().Before(end) {
				begin := time.Now()
				p := gated(clients, fmt.Sprintf("p-%d", next.Add(1)))
				if _, err := c.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
					return err
				}
				own = append(own, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			return nil
		})
	}
	err := group.Wait()
	return all, err
}
