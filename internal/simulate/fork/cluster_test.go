package fork_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
	"github.com/gantry-project/gantry/test/wrappers"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func node(name, cpu string) *corev1.Node {
	n := wrappers.MakeNode().Name(name).Obj()
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse("64Gi")}
	return n
}

func deployment(name string, replicas int32, cpu string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app:1",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse(cpu)}}}}}}}}
}

// A Deployment of a manifest becomes available in virtual time, by the real controllers, scheduler
// and kubelet decisions, and two runs are the same.
func TestDeploymentBecomesAvailable(t *testing.T) {
	run := func() string {
		var objects []runtime.Object
		for i := range 3 {
			objects = append(objects, node(fmt.Sprint("node-", i), "4"))
		}
		objects = append(objects, deployment("web", 5, "500m"))
		began := time.Now()
		c, err := fork.New(t.Context(), fork.Options{Objects: objects, Start: start,
			Model: behavior.Model{Default: behavior.Assumed()}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		t.Logf("loaded in %v", time.Since(began))
		ok, err := c.Run(t.Context(), start.Add(time.Hour), func() bool {
			d, err := c.Client().AppsV1().Deployments("default").Get(context.Background(), "web", metav1.GetOptions{})
			return err == nil && d.Status.AvailableReplicas == 5
		})
		if err != nil || !ok {
			t.Fatalf("not available: %v, %v", ok, err)
		}
		if took := c.Now().Sub(start); took != 3*time.Second {
			t.Errorf("available after %v, want the 2 s of the start and 1 s of readiness", took)
		}
		t.Logf("done in %v", time.Since(began))
		pods, err := c.Client().CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, p := range pods.Items {
			out += fmt.Sprintln(p.Name, p.UID, p.Spec.NodeName, p.Status.Phase, p.CreationTimestamp)
		}
		return out
	}
	if a, b := run(), run(); a != b || a == "" {
		t.Errorf("two runs differ:\n%s\n%s", a, b)
	}
}

// When ctx ends, nothing more is delivered or done, in the middle of an instant too.
func TestRunObeysItsContext(t *testing.T) {
	objects := []runtime.Object{node("node-0", "64"), deployment("web", 50, "10m")}
	c, err := fork.New(t.Context(), fork.Options{Objects: objects, Start: start,
		Model: behavior.Model{Default: behavior.Assumed()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const enough = 20
	seen := 0
	c.Watch(func(memstore.Change) {
		if seen++; seen == enough {
			cancel()
		}
	})
	ok, err := c.Run(ctx, start.Add(time.Hour), func() bool { return false })
	if ok || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v and error %v, want that the context was canceled", ok, err)
	}
	if seen != enough || !c.Now().Equal(start) {
		t.Errorf("%d changes were delivered until %s, want %d at the first instant", seen, c.Now(), enough)
	}
	_, err = fork.New(ctx, fork.Options{Objects: []runtime.Object{node("node-0", "64")}, Start: start})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a copy is made with error %v, want that the context was canceled", err)
	}
}
