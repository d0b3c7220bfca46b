package fork

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Admitted returns a Pod as a cluster's API server would store it: with defaults, its priority and
// what LimitRanges add. The error is that it is refused. The objects are only read.
func Admitted(ctx context.Context, objects []runtime.Object, p *corev1.Pod) (*corev1.Pod, error) {
	var around []runtime.Object
	for _, o := range objects {
		switch o.(type) {
		case *corev1.Node, *corev1.Pod:
		default:
			around = append(around, o.DeepCopyObject())
		}
	}
	c, err := New(ctx, Options{Objects: around, Start: time.Unix(0, 0)})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	p = p.DeepCopy()
	if p.Namespace == "" {
		p.Namespace = corev1.NamespaceDefault
	}
	if p.Name == "" {
		p.GenerateName = "capacity-"
	}
	return c.Client().CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
}
