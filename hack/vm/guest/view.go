package main

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// view is what the API shows; changes go to the time line.
type view struct {
	n *node

	mu       sync.Mutex
	changed  chan struct{} // closed at each change
	pods     map[string]*v1.Pod
	pressure map[v1.NodeConditionType]bool // those that are True
	seen     map[v1.NodeConditionType]bool // those that were True since forget
}

func newView(n *node) *view {
	return &view{n: n, changed: make(chan struct{}), pods: map[string]*v1.Pod{},
		pressure: map[v1.NodeConditionType]bool{}, seen: map[v1.NodeConditionType]bool{}}
}

// follow watches Pods, events and the node.
func (v *view) follow(ctx context.Context) {
	core := v.n.api.CoreV1()
	for _, begin := range []func(context.Context, metav1.ListOptions) (watch.Interface, error){
		core.Pods("default").Watch, core.Events("default").Watch, core.Nodes().Watch,
	} {
		go func() {
			for ctx.Err() == nil {
				w, err := begin(ctx, metav1.ListOptions{})
				if err != nil {
					time.Sleep(time.Second) // the server is busy
					continue
				}
				for e := range w.ResultChan() {
					v.take(e)
				}
			}
		}()
	}
}

func (v *view) take(e watch.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch x := e.Object.(type) {
	case *v1.Pod:
		v.takePod(e.Type, x)
	case *v1.Event:
		if x.Type == v1.EventTypeWarning && e.Type == watch.Added {
			v.n.say("event of %s %s: %s: %s", x.InvolvedObject.Kind, x.InvolvedObject.Name, x.Reason, x.Message)
		}
	case *v1.Node:
		v.takeNode(x)
	}
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *view) takePod(t watch.EventType, p *v1.Pod) {
	before := v.pods[p.Name]
	switch {
	case t == watch.Deleted:
		delete(v.pods, p.Name)
		v.n.say("pod %s: gone", p.Name)
		return
	case before == nil || before.Status.Phase != p.Status.Phase:
		v.n.say("pod %s: %s %s", p.Name, p.Status.Phase, p.Status.Reason)
	}
	v.pods[p.Name] = p
}

func (v *view) takeNode(x *v1.Node) {
	for _, c := range x.Status.Conditions {
		if c.Type == v1.NodeReady {
			continue
		}
		is := c.Status == v1.ConditionTrue
		if v.pressure[c.Type] != is {
			v.n.say("node: %s %s", c.Type, c.Status)
		}
		if delete(v.pressure, c.Type); is {
			v.pressure[c.Type], v.seen[c.Type] = true, true
		}
	}
}

// wait waits until something holds; holds is called with the lock held.
func (v *view) wait(what string, holds func(*view) bool) error {
	end := time.After(patience)
	for {
		v.mu.Lock()
		ok, changed := holds(v), v.changed
		v.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-end:
			return errors.New("waited in vain for: " + what)
		}
	}
}

// waitPod waits for a state of one Pod and returns the Pod.
func (v *view) waitPod(name, what string, holds func(*v1.Pod) bool) (*v1.Pod, error) {
	var out *v1.Pod
	err := v.wait("pod "+name+" "+what, func(v *view) bool {
		out = v.pods[name]
		return out != nil && holds(out)
	})
	return out, err
}

// pod is a Pod as it was last seen; nil when it is not there.
func (v *view) pod(name string) *v1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pods[name]
}

// had tells whether a condition was True since the last call, and forgets it.
func (v *view) had(c v1.NodeConditionType) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	had := v.seen[c]
	delete(v.seen, c)
	return had
}
