package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/test/instance"
)

// comparedScheduler is another scheduler's program that is measured beside Gantry's.
type comparedScheduler struct {
	program string
	name    string // for the results
	rounds  int
	logs    string // directory; empty: not written
}

// comparedConfig is a KubeSchedulerConfiguration without client throttling and leader election; all
// else is the default.
const comparedConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
`

// contender is a scheduler's program and its arguments.
type contender struct {
	name    string
	program string
	args    []string
}

// contenders returns Gantry's scheduler and the other one, as programs for this API server, with
// their configurations written.
func (o options) contenders(i *instance.Instance) ([]contender, error) {
	kubeconfig := filepath.Join(i.Dir, "server", "scheduler.kubeconfig")
	own, theirs := cmp.Or(o.config, filepath.Join(i.Dir, "ours.yaml")), filepath.Join(i.Dir, "theirs.yaml")
	err := os.WriteFile(theirs, fmt.Appendf(nil, comparedConfig, kubeconfig), 0o600)
	if o.config == "" {
		err = errors.Join(err, os.WriteFile(own, []byte(everyNode), 0o600))
	}
	alone := []string{"--leader-elect=false", "--secure-port", "0", "--config"}
	return []contender{
		{ours, i.Binary(), slices.Concat([]string{"scheduler", "--kubeconfig", kubeconfig}, alone, []string{own})},
		{filepath.Base(o.compared.program), o.compared.program, slices.Concat(alone, []string{theirs})},
	}, err
}

// sideBySide measures each shape with both schedulers in turns, each turn with a new process, on
// one API server with the same nodes and initial Pods. Every other round is in reverse order, so
// that growth affects both alike.
func sideBySide(ctx context.Context, o options) ([]row, error) {
	if o.kubeconfig != "" {
		return nil, errors.New("-other starts an API server of its own: leave -kubeconfig out")
	}
	var rows []row
	err := o.chosen(func(s workload, nodes int) error {
		of, err := o.compareOn(ctx, s, nodes)
		rows = append(rows, of...)
		fmt.Fprint(os.Stderr, table(of))
		if ctx.Err() == nil && err != nil { // a failing case is a line without figures and does not end the others
			fmt.Fprintf(os.Stderr, "%s at %d nodes: %v\n", s.name, nodes, err)
			return nil
		}
		return err
	})
	return rows, err
}

func (o options) compareOn(ctx context.Context, s workload, nodes int) (rows []row, err error) {
	ctx, cancel := context.WithTimeout(ctx, 6*timeout)
	defer cancel()
	i, err := instance.New(instance.Options{Binary: o.gantry, Number: 8, Split: true, NodeIP: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.Remove()) }()
	if err := errors.Join(i.Start(), i.WaitAPI(ctx)); err != nil {
		return nil, err
	}
	both, err := o.contenders(i)
	if err != nil {
		return nil, err
	}
	cfg, err := i.Admin(ctx)
	if err != nil {
		return nil, err
	}
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	b := &testbed{o: o}
	if b.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, err
	}
	// Gantry's scheduler binds the initial Pods for both
	if err := b.with(ctx, both[0], func(ctx context.Context) error { return b.prepare(ctx, s, nodes) }); err != nil {
		return nil, err
	}
	n := s.count(o, nodes)
	for turn := range 2 * o.compared.rounds {
		if turn > 0 && turn%2 == 0 {
			slices.Reverse(both)
		}
		who := both[turn%2]
		err := b.with(ctx, who, func(ctx context.Context) error {
			if err := b.warmUp(ctx, turn); err != nil {
				return err
			}
			r, err := b.measure(ctx, s, part{nodes: nodes, from: turn * n, n: n})
			r.Scheduler, r.Turn = who.name, turn+1
			rows = append(rows, r)
			return err
		})
		if err == nil && !s.evicts { // victims are gone: the next turn has other nodes
			err = b.empty(ctx, "sched-1")
		}
		if err != nil {
			return rows, fmt.Errorf("turn %d, %s: %w", turn+1, who.name, err)
		}
	}
	return rows, nil
}

// with calls do while a scheduler runs; its context ends with the scheduler.
func (b *testbed) with(ctx context.Context, who contender, do func(context.Context) error) error {
	logs := os.DevNull
	if dir := b.o.compared.logs; dir != "" {
		logs = filepath.Join(dir, who.name+".log")
	}
	out, err := os.OpenFile(logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	running, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	cmd := exec.CommandContext(running, who.program, who.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		err := cmd.Wait()
		ended(fmt.Errorf("%s ended by itself (-logs DIR keeps what it said): %w", who.name, err))
		close(done)
	}()
	b.pid = cmd.Process.Pid
	err = do(running)
	if cause := context.Cause(running); cause != nil {
		err = errors.Join(err, cause)
	}
	ended(nil)
	<-done
	return err
}

// warmUp returns when the scheduler has read the cluster: it bound a Pod and is idle.
func (b *testbed) warmUp(ctx context.Context, turn int) error {
	p := makePod("sched-0", fmt.Sprintf("warm-%d", turn))
	if err := b.create(ctx, p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := instance.Poll(ctx, 50*time.Millisecond, func() error {
		p, err := b.client.CoreV1().Pods("sched-0").Get(ctx, p.Name, metav1.GetOptions{})
		if err == nil && p.Spec.NodeName == "" {
			err = errors.New("the first Pod is not bound")
		}
		return err
	})
	waitIdle(ctx, b.pid)
	return err
}

// empty deletes the Pods of a namespace.
func (b *testbed) empty(ctx context.Context, namespace string) error {
	pods := b.client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	return b.each(ctx, len(list.Items), func(i int) error { return pods.Delete(ctx, list.Items[i].Name, now) })
}
