package extender

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	config "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"
)

// PluginName is the name under which refusals of extenders are counted and woken.
const PluginName = "Extender"

// Extenders are extenders in the order of asking; ignorable ones should come last, as NewExtenders
// puts them.
type Extenders []framework.Extender

// NewExtenders makes the extenders of a configuration in its order, ignorable ones last. The error
// is of the first whose TLS settings cannot be used; nothing is called yet.
func NewExtenders(list []config.Extender) (Extenders, error) {
	var first, last Extenders
	for _, c := range list {
		x, err := New(c)
		if err != nil {
			return nil, err
		}
		if x.IsIgnorable() {
			last = append(last, x)
		} else {
			first = append(first, x)
		}
	}
	return append(first, last...), nil
}

// Interested are those that have a say about a Pod; nil when none has.
func (a Extenders) Interested(p *v1.Pod) Extenders {
	var out Extenders
	for _, x := range a {
		if x.IsInterested(p) {
			out = append(out, x)
		}
	}
	return out
}

// Filter asks each in turn which of the nodes are left.
func (a Extenders) Filter(ctx context.Context, p *v1.Pod,
	nodes []framework.NodeInfo) ([]framework.NodeInfo, map[string]*framework.Status, error) {
	refused := map[string]*framework.Status{}
	for _, x := range a {
		if len(nodes) == 0 {
			break
		}
		kept, failed, never, err := x.Filter(p, nodes)
		if err != nil {
			if x.IsIgnorable() {
				klog.FromContext(ctx).Info("Skipping extender as it returned error and has ignorable flag set",
					"extender", x.Name(), "err", err)
				continue
			}
			return nil, nil, err
		}
		left := map[string]bool{}
		for _, n := range kept {
			left[n.Node().Name] = true
		}
		for _, n := range nodes {
			name := n.Node().Name
			switch {
			case left[name]:
			case never[name] != "":
				refused[name] = framework.NewStatus(framework.UnschedulableAndUnresolvable,
					never[name]).WithPlugin(PluginName)
			default:
				why := failed[name]
				if why == "" {
					why = fmt.Sprintf("refused by extender %s", x.Name())
				}
				refused[name] = framework.NewStatus(framework.Unschedulable, why).WithPlugin(PluginName)
			}
		}
		nodes = kept
	}
	return nodes, refused, nil
}

// Prioritize asks all at once for scores and adds them up by node, on the plugins' scale. One that
// does not answer has no say.
func (a Extenders) Prioritize(ctx context.Context, p *v1.Pod, nodes []framework.NodeInfo) map[string]int64 {
	var (
		mu  sync.Mutex
		wg  sync.WaitGroup
		out = map[string]int64{}
	)
	for _, x := range a {
		if !x.IsPrioritizer() {
			continue
		}
		wg.Go(func() {
			list, weight, err := x.Prioritize(p, nodes)
			if err != nil {
				klog.FromContext(ctx).V(5).Info(
					"Failed to run extender's priority function. No score given by this extender.",
					"extender", x.Name(), "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, h := range *list {
				out[h.Host] += h.Score * weight * (framework.MaxScore / extenderv1.MaxExtenderPriority)
			}
		})
	}
	wg.Wait()
	return out
}

// Bind has the first binder bind; done is false when there is none, or the one there is failed and
// is ignorable.
func (a Extenders) Bind(ctx context.Context, p *v1.Pod, node string) (done bool, err error) {
	for _, x := range a {
		if !x.IsBinder() {
			continue
		}
		b := &v1.Binding{Target: v1.ObjectReference{Kind: "Node", Name: node}}
		b.Namespace, b.Name, b.UID = p.Namespace, p.Name, p.UID
		if err := x.Bind(b); err != nil {
			if x.IsIgnorable() {
				klog.FromContext(ctx).Info("Skipping extender in bind as it returned error and has ignorable flag set",
					"extender", x.Name(), "err", err)
				continue
			}
			return true, err
		}
		return true, nil
	}
	return false, nil
}

// ProcessPreemption asks in turn what is left of the candidates of a preemption.
func (a Extenders) ProcessPreemption(p *v1.Pod, victims map[string]*extenderv1.Victims,
	nodes framework.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	for _, x := range a {
		if len(victims) == 0 {
			break
		}
		if !x.SupportsPreemption() {
			continue
		}
		left, err := x.ProcessPreemption(p, victims, nodes)
		if err != nil {
			if x.IsIgnorable() {
				continue
			}
			return nil, err
		}
		for node, v := range left {
			if v == nil || len(v.Pods) == 0 {
				return nil, fmt.Errorf("expected at least one victim pod on node %q", node)
			}
		}
		victims = left
	}
	return victims, nil
}
