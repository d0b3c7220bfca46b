package bind

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// defaultBinder binds with one POST to pods/NAME/binding.
type defaultBinder struct {
	client kubernetes.Interface
	quick  Quick
	calls  glue.Calls
}

var _ glue.Offering = defaultBinder{}

func newBinder(q Quick) plugins.Factory {
	return func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		b := defaultBinder{client: h.ClientSet(), quick: q}
		if own, ok := h.(*glue.Handle); ok {
			b.calls = own.Told().Calls
		}
		return b, nil
	}
}

// Name is DefaultBinder.
func (defaultBinder) Name() string { return plugins.DefaultBinder }

// Bind posts the binding; the UID in it makes sure that a Pod made anew under the same name is not bound.
func (b defaultBinder) Bind(ctx context.Context, _ framework.CycleState, p *v1.Pod, node string) *framework.Status {
	klog.FromContext(ctx).V(5).Info("Attempting to bind pod to node", "pod", klog.KObj(p), "node", node)
	binding, began := bindingOf(p, node), time.Now()
	b.calls.Wait(glue.CallBinding, 1)
	defer b.calls.Wait(glue.CallBinding, -1)
	err := b.quick.Bind(ctx, binding)
	if notSent(err) {
		err = b.client.CoreV1().Pods(p.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	b.calls.End(glue.CallBinding, err, began)
	return bound(err)
}

// Offer posts the binding and does not wait.
func (b defaultBinder) Offer(p *v1.Pod, node string, then func(done bool, s *framework.Status)) bool {
	began := time.Now()
	b.calls.Wait(glue.CallBinding, 1)
	offered := b.quick.Offer(bindingOf(p, node), func(err error) {
		b.calls.Wait(glue.CallBinding, -1)
		if !notSent(err) {
			b.calls.End(glue.CallBinding, err, began)
		}
		then(!notSent(err), bound(err))
	})
	if !offered {
		b.calls.Wait(glue.CallBinding, -1)
	}
	return offered
}

func bindingOf(p *v1.Pod, node string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
}

// bound says what the API server said, and nothing besides: it is read in conditions and events, where upstream's words are looked for.
func bound(err error) *framework.Status {
	if err != nil {
		return framework.AsStatus(err)
	}
	return nil
}
