package networkagent

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/nodeipam"
	"github.com/gantry-project/gantry/internal/network/routes"
)

// annotate tells the others of this node's network: where its tunnel ends, and how it reaches them.
func (a Agent) annotate(ctx context.Context, key, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	for {
		_, err := a.Client.CoreV1().Nodes().Patch(ctx, a.Instance.NodeName, types.MergePatchType, body,
			metav1.PatchOptions{})
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		klog.FromContext(ctx).Info("The Node does not tell the others of this node's network yet", "annotation", key,
			"err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// syncRoutes keeps routes equal to Nodes and links until ctx ends. They stay then: Pods run on.
func (a Agent) syncRoutes(ctx context.Context, client kubernetes.Interface, links *routes.Router,
	self routes.Node) error {
	changed, err := routes.WatchLinks(ctx)
	if err != nil {
		return err
	}
	mode, err := routes.ParseMode(a.Instance.PodNetwork.Routes)
	if err != nil {
		return err
	}
	f := informers.NewSharedInformerFactory(client, 0)
	nodes, reported := f.Core().V1().Nodes().Informer(), make(chan struct{}, 1)
	ring := func(any) {
		select {
		case reported <- struct{}{}:
		default:
		}
	}
	handler, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: ring, DeleteFunc: ring,
		UpdateFunc: func(old, cur any) {
			x, ok1 := old.(*v1.Node)
			if y, ok2 := cur.(*v1.Node); !ok1 || !ok2 || routes.AffectsRoutes(x, y) {
				ring(nil)
			}
		}})
	if err != nil {
		return err
	}
	f.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return ctx.Err()
	}
	warn := skipRepeated(a.Logf)
	for {
		if err := a.annotateReachability(ctx, links, mode, &self); err != nil {
			return err
		}
		for _, text := range routes.Disagreements(reachabilityByNode(nodes)) {
			warn("warning: %s", text)
		}
		if err := applyRoutes(links, routes.In{Self: self, Others: peerNodes(nodes), Mode: mode,
			Cluster: links.Cluster}); err != nil {
			klog.FromContext(ctx).Error(err, "Some Pods of other nodes may not be reached")
		}
		again := time.NewTimer(routeRecheckPeriod)
		select {
		case <-reported:
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
		again.Stop()
		select {
		case <-time.After(routeUpdateDelay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// annotateReachability tells the others how this node reaches them, when it is not what it said
// last.
func (a Agent) annotateReachability(ctx context.Context, links *routes.Router, mode routes.Mode,
	self *routes.Node) error {
	on, err := links.Segments()
	if err != nil {
		klog.FromContext(ctx).Error(err, "What this node says of its segments may be old")
		return nil
	}
	way := &routes.Reachability{Mode: mode, OnLink: on}
	if self.Reachability != nil && self.Reachability.String() == way.String() {
		return nil
	}
	self.Reachability = way
	return a.annotate(ctx, routes.ReachabilityAnnotation, way.String())
}

// reachabilityByNode is what each Node with a range says of how it reaches others.
func reachabilityByNode(nodes cache.SharedIndexInformer) map[string]string {
	out := map[string]string{}
	for _, o := range nodes.GetStore().List() {
		if n, ok := o.(*v1.Node); ok && len(n.Spec.PodCIDRs) > 0 {
			out[n.Name] = n.Annotations[routes.ReachabilityAnnotation]
		}
	}
	return out
}

func applyRoutes(links *routes.Router, in routes.In) error {
	var addrs []netip.Addr
	for _, n := range in.Others {
		for _, a := range []netip.Addr{n.Address, n.OtherAddress} {
			if a.IsValid() {
				addrs = append(addrs, a)
			}
		}
	}
	in.OnLink = links.OnLink(addrs)
	if err := links.Apply(routes.Plan(in), in.Self); err != nil {
		return errors.Join(errors.New("routes to other nodes"), err)
	}
	return nil
}

// peerNodes are all Nodes as the network sees them.
func peerNodes(nodes cache.SharedIndexInformer) []routes.Node {
	var out []routes.Node
	for _, o := range nodes.GetStore().List() {
		n, ok := o.(*v1.Node)
		if !ok {
			continue
		}
		out = append(out, routes.NodeOf(n, nodeipam.Parse(n.Spec.PodCIDRs)))
	}
	return out
}
