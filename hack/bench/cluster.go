package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/test/instance"
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
			if n, ok := e.Object.(*v1.Node); ok && node.IsReady(n) {
				w.Stop()
				return nil
			}
		}
	}
	return fmt.Errorf("the node did not become ready: %w", ctx.Err())
}

// sleeper returns a Pod that sleeps.
func sleeper(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"bench": "yes"}},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []v1.Container{
				{Name: "c", Image: image, Command: []string{"sleep", "3600"}}},
		},
	}
}

// create creates a Pod and retries while its service account does not exist.
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
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := c.watching(ctx)
	if err != nil {
		return err
	}
	if err := c.create(ctx, sleeper(name)); err != nil {
		return err
	}
	return seen.all(ctx, []string{name}, running)
}

// empty deletes all Pods and waits until they are gone.
func (c *cluster) empty(ctx context.Context) error {
	pods := c.client.CoreV1().Pods("default")
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if err := pods.DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
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
