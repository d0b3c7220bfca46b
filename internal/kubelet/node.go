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
	o      Options
	synced chan struct{}

	mu  sync.Mutex
	now *v1.Node
}

func newNode(o Options) *node { return &node{o: o, synced: make(chan struct{})} }

// watch follows the object until ctx ends; changed is called after each change.
func (n *node) watch(ctx context.Context, changed func()) {
	f := informers.NewSharedInformerFactoryWithOptions(n.o.Client, 0, informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.FieldSelector = fields.OneTermEqualSelector("metadata.name", n.o.NodeName).String()
	}))
	i := f.Core().V1().Nodes().Informer()
	set := func(obj any) {
		if v, ok := obj.(*v1.Node); ok && v.Name == n.o.NodeName {
			n.mu.Lock()
			n.now = v
			n.mu.Unlock()
			changed()
		}
	}
	h, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: set, UpdateFunc: func(_, obj any) { set(obj) }})
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

// known is the newest state that the API told; nil before the node is registered.
func (n *node) known() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// object is the newest state; while the API has not told it, what this kubelet would register. Nil when neither is there.
func (n *node) object() *v1.Node {
	if v := n.known(); v != nil {
		return v
	}
	if n.o.Ports.LocalNode != nil {
		return n.o.Ports.LocalNode()
	}
	return nil
}

func (n *node) hostIPs() []string {
	if n.o.Ports.HostIPs != nil {
		return n.o.Ports.HostIPs()
	}
	var out []string
	if v := n.object(); v != nil {
		for _, a := range v.Status.Addresses {
			if a.Type == v1.NodeInternalIP {
				out = append(out, a.Address)
			}
		}
	}
	return out
}

func (n *node) capacity() v1.ResourceList {
	if n.o.Ports.Capacity != nil {
		return n.o.Ports.Capacity()
	}
	if v := n.object(); v != nil {
		return v.Status.Capacity
	}
	return nil
}

func (n *node) allocatable() v1.ResourceList {
	if n.o.Ports.Allocatable != nil {
		return n.o.Ports.Allocatable()
	}
	if v := n.object(); v != nil {
		return v.Status.Allocatable
	}
	return nil
}
