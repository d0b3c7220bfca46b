package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/server"
	"github.com/gantry-project/gantry/test/instance"
)

// timeout is how long the Pods of one step may take to be bound.
const timeout = 5 * time.Minute

// everyNode is the configuration of a `gantry scheduler` that scores every node, as `gantry up`
// does.
const everyNode = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: " +
	"KubeSchedulerConfiguration\npercentageOfNodesToScore: 100\n"

// testbed is an API server with a scheduler.
type testbed struct {
	client kubernetes.Interface
	pid    int // of the scheduler
	o      options
	end    func() error
}

func throughAPI(ctx context.Context, o options) ([]row, error) {
	var rows []row
	err := o.chosen(func(s workload, nodes int) error {
		b, err := o.openTestbed(ctx)
		if err != nil {
			return err
		}
		r, err := b.run(ctx, s, nodes)
		if err = errors.Join(err, b.end()); err != nil {
			return err
		}
		rows = append(rows, r)
		fmt.Fprint(os.Stderr, table(rows[len(rows)-1:]))
		return nil
	})
	return rows, err
}

// openTestbed starts an API server and a scheduler, or connects to running ones.
func (o options) openTestbed(ctx context.Context) (*testbed, error) {
	b := &testbed{o: o, pid: o.pid, end: func() error { return nil }}
	var cfg *rest.Config
	if o.kubeconfig != "" {
		var err error
		if cfg, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig); err != nil {
			return nil, err
		}
	} else {
		i, err := o.own(ctx)
		if i != nil {
			b.end = func() error { return errors.Join(i.Stop(), i.Remove()) }
		}
		if err != nil {
			return nil, errors.Join(err, b.end())
		}
		b.pid = i.PID("scheduler")
		if o.profile != "" {
			b.pid = os.Getpid()
			if err := b.attach(ctx, i); err != nil {
				return nil, errors.Join(err, b.end())
			}
		}
		if cfg, err = i.Admin(ctx); err != nil {
			return nil, errors.Join(err, b.end())
		}
	}
	cfg.ContentType, cfg.QPS = "application/vnd.kubernetes.protobuf", -1
	var err error
	b.client, err = kubernetes.NewForConfig(cfg)
	return b, err
}

func (o options) own(ctx context.Context) (*instance.Instance, error) {
	i, err := instance.New(instance.Options{Binary: o.gantry, Number: 8, Split: true, NodeIP: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	file := o.config
	if file == "" {
		file = filepath.Join(i.Dir, "scheduler.yaml")
		if err := os.WriteFile(file, []byte(everyNode), 0o600); err != nil {
			return i, err
		}
	}
	i.SchedulerConfig(file)
	if err := i.Start(); err != nil {
		return i, err
	}
	if err := i.WaitAPI(ctx); err != nil {
		return i, err
	}
	if o.profile != "" {
		return i, nil
	}
	return i, i.StartRole("scheduler")
}

// attach runs the scheduler in this process, under the profiler.
func (b *testbed) attach(ctx context.Context, i *instance.Instance) error {
	cfg, err := i.Admin(ctx)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	conf, err := config.Load([]byte(everyNode))
	if err != nil {
		return err
	}
	out, err := os.Create(b.o.profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, server.Options{KubeConfig: cfg, Config: conf, NoLeaderElection: true}) }()
	end := b.end
	b.end = func() error {
		cancel()
		err := <-done
		pprof.StopCPUProfile()
		return errors.Join(err, out.Close(), end())
	}
	return nil
}

// run measures one shape: it creates nodes and initial Pods, then the measured Pods, and waits for
// them.
func (b *testbed) run(ctx context.Context, s workload, nodes int) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	if err := b.prepare(ctx, s, nodes); err != nil {
		return row{}, err
	}
	return b.measure(ctx, s, part{nodes: nodes, n: s.count(b.o, nodes)})
}

// part are the Pods of one measurement: n of them, the first with the number from.
type part struct{ nodes, from, n int }

// count returns how many Pods of a shape are measured.
func (s *workload) count(o options, nodes int) int {
	n := s.measured(nodes)
	if o.pods > 0 {
		n = o.pods
	}
	if s.room != nil {
		n = min(n, s.room(nodes))
	}
	return n
}

// measure creates the measured Pods and waits until they are bound.
func (b *testbed) measure(ctx context.Context, s workload, of part) (row, error) {
	stop, err := b.churn(ctx, s, of)
	if err != nil {
		return row{}, err
	}
	defer stop()
	w, err := b.watch(ctx, "sched-1")
	if err != nil {
		return row{}, err
	}
	at := moments{from: of.from, created: make([]time.Time, of.n)}
	began, cpu := time.Now(), cpuOf(b.pid)
	err = b.each(ctx, of.n, func(i int) error {
		p := s.makeMeasured(of.from+i, of.nodes)
		if s.setup != nil {
			if err := s.setup(ctx, b, p.Name); err != nil {
				return err
			}
		}
		at.created[i] = time.Now()
		return b.create(ctx, p)
	})
	if err != nil {
		return row{}, err
	}
	created := time.Since(began)
	at.bound, err = w.wait(ctx, of.n)
	stop()
	r := b.measured(ctx, s.name, at, usage{began, cpu})
	r.Nodes = of.nodes
	r.Note = fmt.Sprintf("created in %.1f s", created.Seconds())
	if err != nil {
		r.Note += "; " + err.Error()
	}
	return r, nil
}

// usage is the start of a measurement, and the scheduler's CPU time then.
type usage struct {
	began time.Time
	cpu   time.Duration
}

// moments are when Pods were created, by number from the first one's, and when they were bound, by
// name.
type moments struct {
	from    int
	created []time.Time
	bound   map[string]time.Time
}

// measured sums up creation and binding times. The scheduler's work after the last binding counts,
// too.
func (b *testbed) measured(ctx context.Context, name string, at moments, from usage) row {
	n := len(at.created)
	r := row{Case: name, Pods: n, Placed: len(at.bound)}
	took := make([]time.Duration, 0, n)
	last := from.began
	for i := range n {
		bound, ok := at.bound[fmt.Sprintf("pod-%d", at.from+i)]
		if !ok {
			continue
		}
		took = append(took, bound.Sub(at.created[i]))
		if bound.After(last) {
			last = bound
		}
	}
	waitIdle(ctx, b.pid)
	r.took(took, last.Sub(from.began), cpuOf(b.pid)-from.cpu)
	r.RSS = rssOf(b.pid)
	return r
}

// waitIdle returns when a process was nearly idle (a hundredth of a core) for half a second; after
// five seconds it gives up.
func waitIdle(ctx context.Context, pid int) {
	const look = 500 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	for n, before := 0, cpuOf(pid); n < 10; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := cpuOf(pid)
		if now-before < look/100 {
			return
		}
		before = now
	}
}

func (b *testbed) prepare(ctx context.Context, s workload, nodes int) error {
	for _, name := range []string{"sched-0", "sched-1"} {
		_, err := b.client.CoreV1().Namespaces().Create(ctx,
			&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: namespaceLabels}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		// no controllers run here that would make it
		account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := b.client.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	err := b.each(ctx, nodes, func(i int) error { return b.node(ctx, s.makeNode(i)) })
	if err == nil && s.before != nil {
		err = s.before(ctx, b, nodes)
	}
	if err != nil || s.init == nil {
		return err
	}
	w, err := b.watch(ctx, "sched-0")
	if err != nil {
		return err
	}
	n := s.init(nodes)
	if b.o.first > 0 && !s.evicts { // who is to make room must fill the nodes
		n = min(n, b.o.first)
	}
	if err := b.each(ctx, n, func(i int) error { return b.create(ctx, s.makeInit(i)) }); err != nil || s.waiting {
		return err
	}
	_, err = w.wait(ctx, n)
	return err
}

func (b *testbed) node(ctx context.Context, n *v1.Node) error {
	made, err := b.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if len(made.Status.Allocatable) == 0 { // an API server that wants it said twice
		made.Status = n.Status
		if made, err = b.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	if len(made.Spec.Taints) == 0 {
		return nil
	}
	made.Spec.Taints = nil // not-ready: nobody takes it away here
	_, err = b.client.CoreV1().Nodes().Update(ctx, made, metav1.UpdateOptions{})
	return err
}

func (b *testbed) create(ctx context.Context, p *v1.Pod) error {
	p.UID = ""
	p.Spec.SchedulerName = b.o.scheduler
	if p.Spec.Priority != nil && *p.Spec.Priority > 0 {
		p.Spec.PriorityClassName = "high"
	}
	p.Spec.Priority = nil
	no := false
	p.Spec.AutomountServiceAccountToken = &no
	_, err := b.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	return err
}

// each calls do for 0..n-1 from several clients; the first error ends it.
func (b *testbed) each(ctx context.Context, n int, do func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range b.o.creators {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
