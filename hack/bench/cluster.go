package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// cluster is a client of the instance under measurement: protobuf, not throttled.
type cluster struct{ client kubernetes.Interface }

func connect(ctx context.Context, i *instance.Instance) (*cluster, error) {
	cfg, err := i.Admin(ctx)
	if err != nil {
		return nil, err
	}
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	return &cluster{client}, err
}

// nodeReady waits until a node is Ready.
func (c *cluster) nodeReady(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := c.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*v1.Node); ok {
				for _, x := range n.Status.Conditions {
					if x.Type == v1.NodeReady && x.Status == v1.ConditionTrue {
						w.Stop()
						return nil
					}
				}
			}
		}
	}
	return fmt.Errorf("the node did not become ready: %w", ctx.Err())
}

// sleeper is a Pod that does nothing.
func sleeper(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"bench": "yes"}},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers:                    []v1.Container{{Name: "c", Image: image, Command: []string{"sleep", "3600"}}},
		},
	}
}

// create creates a Pod, again and again while its service account is not there yet.
func (c *cluster) create(ctx context.Context, p *v1.Pod) error {
	return instance.Poll(ctx, 2*time.Millisecond, func() error {
		_, err := c.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// firstPod creates a Pod and waits until it runs.
func (c *cluster) firstPod(ctx context.Context, name string) error {
	if err := c.create(ctx, sleeper(name)); err != nil {
		return err
	}
	seen, err := c.follow(ctx, fields.OneTermEqualSelector("metadata.name", name).String())
	if err != nil {
		return err
	}
	defer seen.stop()
	_, err = seen.wait(ctx, 1)
	return err
}

// follower notes when each Pod was first seen Running.
type follower struct {
	stop    func()
	running chan arrival
}

type arrival struct {
	name string
	at   time.Time
}

func (c *cluster) follow(ctx context.Context, selector string) (*follower, error) {
	w, err := c.client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	f := &follower{stop: w.Stop, running: make(chan arrival, 1000)}
	go func() {
		known := map[string]bool{}
		for e := range w.ResultChan() {
			p, ok := e.Object.(*v1.Pod)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			if p.Status.Phase == v1.PodRunning && !known[p.Name] {
				known[p.Name] = true
				f.running <- arrival{p.Name, time.Now()}
			}
		}
	}()
	return f, nil
}

// wait returns the times at which n Pods were seen Running.
func (f *follower) wait(ctx context.Context, n int) (map[string]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	out := map[string]time.Time{}
	for len(out) < n {
		select {
		case a := <-f.running:
			out[a.name] = a.at
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d Pods ran: %w", len(out), n, ctx.Err())
		}
	}
	return out, nil
}

// empty deletes all Pods and waits until they are gone.
func (c *cluster) empty(ctx context.Context) error {
	pods := c.client.CoreV1().Pods("default")
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return instance.Poll(ctx, 50*time.Millisecond, func() error {
		list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%s is still there", list.Items[0].Name)
		}
		return err
	})
}
