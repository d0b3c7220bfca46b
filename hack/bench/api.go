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

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/test/instance"
)

// turn is how long one server is loaded before the next one.
const turn = time.Second

// server is an API server under load.
type server struct {
	*cluster
	name     string // as figures name it
	pids     []int  // whose CPU time counts
	instance *instance.Instance
}

// api measures how many Pods servers take from 1, 8 and 32 clients, through HTTPS on loopback by
// client-go (protobuf, no throttle): `gantry up`, `gantry server` alone, and the server that the
// flags name. They have turns of a second, so that what else the machine does meets all of them.
// The Pods carry a scheduling gate, so that nothing but the API server works on them. Gantry's etcd
// is embedded and syncs to disk. The clients share the machine with the servers; "per core-second"
// counts the CPU time of the server's processes alone, etcd and watchers included.
func (b *bench) api(ctx context.Context) ([]result.Figure, error) {
	servers, end, err := b.servers(ctx)
	defer end()
	if err != nil {
		return nil, err
	}
	var figures []result.Figure
	for _, clients := range []int{1, 8, 32} {
		all, err := b.inTurns(ctx, servers, clients, b.times(5))
		if err != nil {
			return nil, err
		}
		for n, c := range all {
			figures = append(figures, c.figures(fmt.Sprintf("%s/%d clients", servers[n].name, clients))...)
		}
	}
	return figures, nil
}

// servers starts `gantry up` and `gantry server`, and adds the server that the flags name; end
// stops those it started.
func (b *bench) servers(ctx context.Context) (all []*server, end func(), err error) {
	var started []*instance.Instance
	end = func() {
		for _, i := range started {
			b.remove(i)
		}
	}
	add := func(name string, i *instance.Instance, pids ...int) error {
		c, err := connect(ctx, i)
		if err == nil {
			all = append(all, &server{cluster: c, name: name, pids: pids, instance: i})
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
		err = errors.Join(err, bad, add("other", instance.Foreign(b.binary, b.other.kubeconfig), pids...))
	}
	return all, end, err
}

// other is a running server that is measured beside Gantry.
type other struct{ name, kubeconfig, pids string }

// processes returns the processes whose CPU time counts.
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

// created is the sum of a server's turns of creations.
type created struct {
	pods      int
	took, cpu time.Duration
	calls     []time.Duration
}

func (c created) figures(name string) []result.Figure {
	return []result.Figure{
		result.Value(name+"/Pods", "/s", float64(c.pods)/c.took.Seconds()),
		result.Value(name+"/Pods per core-second", "/s", float64(c.pods)/c.cpu.Seconds()),
		result.Durations(name+"/create", c.calls),
	}
}

// inTurns loads the servers one after the other, repeatedly, and returns what each took in all.
func (b *bench) inTurns(ctx context.Context, servers []*server, clients, rounds int) ([]created, error) {
	all := make([]created, len(servers))
	for _, t := range servers {
		if err := t.prepare(ctx, gated(clients, "first")); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		name := fmt.Sprintf("api-%s-%d", strings.ReplaceAll(t.name, " ", "-"), clients)
		defer b.profile(ctx, t.instance, name, time.Duration(rounds*len(servers))*turn)()
	}
	var next atomic.Int64
	for range rounds {
		for n, t := range servers {
			before, begin := t.cpu(), time.Now()
			calls, err := createPods(ctx, t.cluster, clients, &next)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			all[n].pods += len(calls)
			all[n].took += time.Since(begin)
			all[n].cpu += t.cpu() - before
			all[n].calls = append(all[n].calls, calls...)
		}
	}
	return all, nil
}

// cpu returns the CPU time of the server's processes so far.
func (s *server) cpu() (sum time.Duration) {
	for _, pid := range s.pids {
		sum += read(fmt.Sprintf("/proc/%d", pid)).cpu
	}
	return sum
}

// prepare creates the namespace of a first Pod and, as a server alone has no controllers, its
// service account.
func (s *server) prepare(ctx context.Context, first *v1.Pod) error {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first.Namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: first.Namespace}}
	_, err := s.client.CoreV1().ServiceAccounts(first.Namespace).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return s.create(ctx, first) // waits until admission has the account
}

func gated(clients int, name string) *v1.Pod {
	p := sleeper(name)
	p.Namespace = fmt.Sprintf("load-%d-%d", os.Getpid(), clients) // another server may have those of another run
	p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "gantry.example/bench"}}
	return p
}

// createPods creates Pods from several clients for one turn and returns how long each call took.
func createPods(ctx context.Context, c *cluster, clients int, next *atomic.Int64) ([]time.Duration, error) {
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
