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

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// defaultBinder binds with one POST to pods/NAME/binding.
type defaultBinder struct {
	client   kubernetes.Interface
	writer   APIWriter
	apiCalls frameworkruntime.APICallHooks
}

var _ frameworkruntime.InlineBindPlugin = defaultBinder{}

func newDefaultBinder(q APIWriter) plugins.Factory {
	return func(_ context.Context, _ runtime.Object, h framework.Handle) (framework.Plugin, error) {
		b := defaultBinder{client: h.ClientSet(), writer: q}
		if own, ok := h.(*frameworkruntime.Handle); ok {
			b.apiCalls = own.Hooks().APICalls
		}
		return b, nil
	}
}

// Name is DefaultBinder.
func (defaultBinder) Name() string { return plugins.DefaultBinder }

// Bind posts the binding and waits. The UID in it keeps a Pod that was deleted and created again
// under the same name from being bound.
func (b defaultBinder) Bind(ctx context.Context, _ framework.CycleState, p *v1.Pod, node string) *framework.Status {
	klog.FromContext(ctx).V(5).Info("Attempting to bind pod to node", "pod", klog.KObj(p), "node", node)
	binding, began := bindingOf(p, node), time.Now()
	b.apiCalls.AddPending(frameworkruntime.CallBinding, 1)
	defer b.apiCalls.AddPending(frameworkruntime.CallBinding, -1)
	err := b.writer.Bind(ctx, binding)
	if isNotSent(err) {
		err = b.client.CoreV1().Pods(p.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
	b.apiCalls.ObserveExecuted(frameworkruntime.CallBinding, err, began)
	return bindStatus(err)
}

// BindInline implements frameworkruntime.InlineBindPlugin with a binding that leaves with others.
func (b defaultBinder) BindInline(p *v1.Pod, node string, then func(done bool, s *framework.Status)) bool {
	began := time.Now()
	b.apiCalls.AddPending(frameworkruntime.CallBinding, 1)
	offered := b.writer.QueueBinding(bindingOf(p, node), func(err error) {
		b.apiCalls.AddPending(frameworkruntime.CallBinding, -1)
		if !isNotSent(err) {
			b.apiCalls.ObserveExecuted(frameworkruntime.CallBinding, err, began)
		}
		then(!isNotSent(err), bindStatus(err))
	})
	if !offered {
		b.apiCalls.AddPending(frameworkruntime.CallBinding, -1)
	}
	return offered
}

func bindingOf(p *v1.Pod, node string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}
}

// bindStatus is the API server's error and nothing besides: conditions and Events show it in
// upstream's words.
func bindStatus(err error) *framework.Status {
	if err != nil {
		return framework.AsStatus(err)
	}
	return nil
}
