package kubelet

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// node is this node's own object, followed by a watch.
type node struct {
	opts   Options
	synced chan struct{}

	mu      sync.Mutex
	current *v1.Node
}

func newNode(o Options) *node { return &node{opts: o, synced: make(chan struct{})} }

// watch follows the object until ctx ends; changed is called after each change.
func (n *node) watch(ctx context.Context, changed func()) {
	f := informers.NewSharedInformerFactoryWithOptions(n.opts.Client, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = fields.OneTermEqualSelector("metadata.name", n.opts.NodeName).String()
		}))
	i := f.Core().V1().Nodes().Informer()
	set := func(obj any) {
		if v, ok := obj.(*v1.Node); ok && v.Name == n.opts.NodeName {
			n.mu.Lock()
			n.current = v
			n.mu.Unlock()
			changed()
		}
	}
	h, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: set,
		UpdateFunc: func(_, obj any) { set(obj) }})
	if err != nil {
		return // only a stopped informer refuses a handler
	}
	f.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), h.HasSynced) {
		close(n.synced)
	}
	<-ctx.Done()
	f.Shutdown()
}

// get is the newest state that the API told; nil before the node is registered.
func (n *node) get() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// getOrInitial is the newest state; while the API has not told it, what this kubelet would
// register. Nil when neither is there.
func (n *node) getOrInitial() *v1.Node {
	if v := n.get(); v != nil {
		return v
	}
	if n.opts.Dependencies.LocalNode != nil {
		return n.opts.Dependencies.LocalNode()
	}
	return nil
}

func (n *node) hostIPs() []string {
	if n.opts.Dependencies.HostIPs != nil {
		return n.opts.Dependencies.HostIPs()
	}
	var out []string
	if v := n.getOrInitial(); v != nil {
		for _, a := range v.Status.Addresses {
			if a.Type == v1.NodeInternalIP {
				out = append(out, a.Address)
			}
		}
	}
	return out
}

func (n *node) capacity() v1.ResourceList {
	if n.opts.Dependencies.Capacity != nil {
		return n.opts.Dependencies.Capacity()
	}
	if v := n.getOrInitial(); v != nil {
		return v.Status.Capacity
	}
	return nil
}

func (n *node) allocatable() v1.ResourceList {
	if n.opts.Dependencies.Allocatable != nil {
		return n.opts.Dependencies.Allocatable()
	}
	if v := n.getOrInitial(); v != nil {
		return v.Status.Allocatable
	}
	return nil
}
