package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// nodeBench is an instance whose node is filled, and what was measured of it.
type nodeBench struct {
	*cluster
	instance       *instance.Instance
	seen           *sightings
	filled, made   int
	settle, window time.Duration
	resting, times [][]string
	calls          [][]string
	start, end     counts // of the calls for Pods that are being counted; nil: nobody counts
}

// newNode starts an instance and follows its Pods.
func (b *bench) newNode(ctx context.Context, flags []string) (*nodeBench, error) {
	i, c, err := b.running(ctx, flags...)
	if err != nil {
		if i != nil {
			b.remove(i)
		}
		return nil, err
	}
	n := &nodeBench{cluster: c, instance: i, settle: 30 * time.Second, window: 30 * time.Second}
	if b.short {
		n.settle, n.window = 5*time.Second, 5*time.Second
	}
	if n.seen, err = c.watching(ctx); err != nil {
		b.remove(i)
		return nil, err
	}
	return n, nil
}

// ender is a Pod that sleeps until it is told to end.
func ender(name string) *v1.Pod {
	p := sleeper(name)
	p.Spec.TerminationGracePeriodSeconds = new(int64(5))
	p.Spec.Containers[0].Command = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 36000 & wait"}
	return p
}

// What may be seen of a Pod.
const (
	running = iota
	exited
	gone
)

// sightings note when what of each Pod was first seen.
type sightings struct {
	mu   sync.Mutex
	when [3]map[string]time.Time
	news chan struct{} // closed and made anew with each event
}

func (c *cluster) watching(ctx context.Context) (*sightings, error) {
	l := &sightings{news: make(chan struct{})}
	for i := range l.when {
		l.when[i] = map[string]time.Time{}
	}
	pods := c.client.CoreV1().Pods("default")
	w, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	go func() {
		for ctx.Err() == nil {
			for e := range w.ResultChan() {
				if p, ok := e.Object.(*v1.Pod); ok {
					l.note(p, e.Type == watch.Deleted, time.Now())
				}
			}
			// The server ends a watch that it finds too slow: what happened meanwhile is seen late.
			var list *v1.PodList
			if list, err = pods.List(ctx, metav1.ListOptions{}); err == nil {
				fmt.Fprintln(os.Stderr, "bench: the watch of Pods was ended and is begun anew: times of what happened in between are too long")
				l.missed(list.Items, time.Now())
				w, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			}
			if err != nil {
				return // the instance is gone, or nobody waits for ever for what it would have brought
			}
		}
	}()
	return l, nil
}

// missed notes what a list shows after a watch was ended: Pods it does not have are gone.
func (l *sightings) missed(pods []v1.Pod, now time.Time) {
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
	close(l.news)
	l.news = make(chan struct{})
}

func (l *sightings) note(p *v1.Pod, removed bool, now time.Time) {
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
	close(l.news)
	l.news = make(chan struct{})
}

func (l *sightings) at(name string, what int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.when[what][name]
}

// all waits until it was seen of all Pods.
func (l *sightings) all(ctx context.Context, names []string, what int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		l.mu.Lock()
		left := ""
		for _, name := range names {
			if _, ok := l.when[what][name]; !ok {
				left = name
				break
			}
		}
		news := l.news
		l.mu.Unlock()
		if left == "" {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("%s of %d Pods did not come so far: %w", left, len(names), ctx.Err())
		}
	}
}
