package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/test/instance"
)

// nodeBench is an instance whose node is filled, and its measurements.
type nodeBench struct {
	*cluster
	instance       *instance.Instance
	role           string // the process that holds the kubelet: up, or kubelet where it is one of its own
	seen           *podEvents
	filled, made   int
	settle, window time.Duration
	figures        []result.Figure
	start, end     counts // calls for Pods that are being counted; nil: not counted
	unwatch        func()
}

// remove ends the watch and removes the instance.
func (n *nodeBench) remove(b *bench) {
	n.unwatch()
	b.remove(n.instance)
}

// newNode starts an instance and watches its Pods.
func (b *bench) newNode(ctx context.Context, flags []string) (*nodeBench, error) {
	i, c, err := b.running(ctx, flags...)
	if err != nil {
		if i != nil {
			b.remove(i)
		}
		return nil, err
	}
	return b.watched(ctx, i, c)
}

// watched watches the Pods of a running instance.
func (b *bench) watched(ctx context.Context, i *instance.Instance, c *cluster) (*nodeBench, error) {
	n := &nodeBench{cluster: c, instance: i, role: "up", settle: 20 * time.Second, window: time.Minute}
	if b.short {
		n.settle, n.window = 5*time.Second, 5*time.Second
	}
	ctx, n.unwatch = context.WithCancel(ctx)
	var err error
	if n.seen, err = c.watching(ctx); err != nil {
		n.remove(b)
		return nil, err
	}
	n.seen.why = func(ctx context.Context, pod string) string {
		out, err := exec.CommandContext(ctx, i.Binary(), "why", "pod/"+pod, "--kubeconfig",
			i.Kubeconfig()).CombinedOutput()
		return fmt.Sprintf("gantry why pod/%s:\n%s%v", pod, out, err)
	}
	return n, nil
}

// termSleeper returns a Pod that sleeps until SIGTERM.
func termSleeper(name string) *v1.Pod {
	p := sleeper(name)
	p.Spec.TerminationGracePeriodSeconds = new(int64(5))
	p.Spec.Containers[0].Command = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 36000 & wait"}
	return p
}

// Observed states of a Pod.
const (
	running = iota
	exited
	gone
)

var eventNames = [3]string{running: "running", exited: "exited", gone: "gone"}

// podEvents records when each Pod was first seen in each state.
type podEvents struct {
	mu      sync.Mutex
	when    [3]map[string]time.Time
	changed chan struct{}                                // closed and made anew with each event
	why     func(ctx context.Context, pod string) string // describes why a Pod does not get further
}

// watching watches the Pods until ctx ends.
func (c *cluster) watching(ctx context.Context) (*podEvents, error) {
	l := &podEvents{changed: make(chan struct{}), why: func(context.Context, string) string { return "" }}
	for i := range l.when {
		l.when[i] = map[string]time.Time{}
	}
	w, err := c.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			for e := range w.ResultChan() {
				if p, ok := e.Object.(*v1.Pod); ok {
					l.note(p, e.Type == watch.Deleted, time.Now())
				}
			}
			// The server ends a watch that is too slow; what happened meanwhile is seen late. A
			// busy server may need more than one attempt.
			for w = nil; w == nil; {
				if err := sleep(ctx, 100*time.Millisecond); err != nil {
					return
				}
				w = c.again(ctx, l)
			}
		}
	}()
	return l, nil
}

// again restarts a watch that ended; nil if that failed.
func (c *cluster) again(ctx context.Context, l *podEvents) watch.Interface {
	pods := c.client.CoreV1().Pods("default")
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	fmt.Fprintln(os.Stderr, "bench: the watch of Pods was ended and begins again: times of what happened are too long")
	l.missed(list.Items, time.Now())
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil
	}
	return w
}

// missed records what a list shows after a watch ended: missing Pods are gone.
func (l *podEvents) missed(pods []v1.Pod, now time.Time) {
	there := map[string]bool{}
	for i := range pods {
		there[pods[i].Name] = true
		l.note(&pods[i], false, now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.when[running] {
		if _, known := l.when[gone][name]; !known && !there[name] {
			l.when[gone][name] = now
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *podEvents) note(p *v1.Pod, removed bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, is := range [3]bool{
		running: p.Status.Phase == v1.PodRunning,
		exited:  len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil,
		gone:    removed,
	} {
		if _, known := l.when[what][p.Name]; is && !known {
			l.when[what][p.Name] = now
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *podEvents) at(name string, what int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.when[what][name]
}

// left returns the Pods that were not seen in a state yet, and a channel closed with the next
// event.
func (l *podEvents) left(names []string, what int) ([]string, chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, name := range names {
		if _, ok := l.when[what][name]; !ok {
			out = append(out, name)
		}
	}
	return out, l.changed
}

// all waits until all Pods were seen in a state; it fails if none gets there for two minutes.
func (l *podEvents) all(ctx context.Context, names []string, what int) error {
	most := len(names) + 1
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for {
		left, changed := l.left(names, what)
		if len(left) == 0 {
			return nil
		}
		if len(left) < most {
			most = len(left)
			deadline.Reset(2 * time.Minute)
		}
		select {
		case <-changed:
		case <-deadline.C:
			return fmt.Errorf("%d of %d Pods are not %s, and for two minutes no other was; the first of them is %s. %s",
				len(left), len(names), eventNames[what], left[0], l.why(ctx, left[0]))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
