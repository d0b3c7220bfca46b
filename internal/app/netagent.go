package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/nodecidr"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/linux/instance"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/peers"
	"github.com/gantry-project/gantry/internal/policy"
)

// netAgent keeps the part of the Pod network that follows the API: this node's range, the ways to other nodes, network policies.
type netAgent struct {
	place  *place
	engine *engine
	own    kubernetes.Interface // as this node
	wide   whole                // nil: nothing is done that needs it
	names  names                // nil: the cluster's names are not served here, or by somebody else
	facts  journal.Sink         // nil: nobody is told
	say    func(string, ...any)
}

// whole is who sees all nodes, Pods, namespaces, policies and Services; it may have to wait until it is let in.
type whole func() (*rest.Config, error)

// client is one for the parts of the agent.
func (w whole) client() (kubernetes.Interface, error) {
	cfg, err := w()
	if err != nil {
		return nil, err
	}
	return clientFor(cfg, "gantry-network")
}

// names serves the cluster's names to Pods whose addresses are of the ranges.
type names func(ctx context.Context, api *rest.Config, own []netip.Prefix) error

// How soon changes of nodes and links are followed, and how often routes are looked at without any.
const (
	settle  = 200 * time.Millisecond
	recheck = 30 * time.Second
)

func (u *upCommand) networkOf(ctx context.Context, c cluster, own kubernetes.Interface) error {
	wide := c.server.InProcess(controllersUser())
	return netAgent{place: &u.place, engine: c.engine, own: own, wide: func() (*rest.Config, error) { return wide, nil }, facts: c.log.Speaker("kubelet", u.nodeName), say: u.out.step}.run(ctx)
}

// run works until ctx ends. On somebody else's network there is nothing to do.
func (a netAgent) run(ctx context.Context) error {
	if !a.engine.network {
		<-ctx.Done()
		return nil
	}
	runs := []func(context.Context) error{a.audit}
	if a.place.clusterCIDR != "" {
		runs = append(runs, a.nodes)
		if a.wide == nil {
			a.say("warning: Pods of other nodes are not reached, as this node may not see the others; give --network-kubeconfig")
		}
	}
	if a.engine.gate != nil && a.wide != nil {
		runs = append(runs, a.policies)
	}
	return together(ctx, runs...)
}

// audit gives back, as long as the node runs, what Pods left that are gone.
func (a netAgent) audit(ctx context.Context) error {
	look := network.NewAuditor(a.place.networkConfig(), func(ctx context.Context) (map[string]bool, error) {
		all, err := a.engine.client.Runtime().ListPodSandbox(ctx, nil)
		if err != nil {
			return nil, err
		}
		out := map[string]bool{}
		for _, s := range all {
			out[s.Id] = s.State == runtimeapi.PodSandboxState_SANDBOX_READY
		}
		return out, nil
	})
	a.engine.meter.Add(look.Collectors()...)
	every := time.NewTicker(recheck)
	defer every.Stop()
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		r, err := look.Look(ctx)
		log := klog.FromContext(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "The audit of Pods' addresses is not complete; it is made again", "every", recheck)
		}
		for _, l := range r.Leases {
			log.Info("Nobody held an address any more; it is free again", "ips", l.IPs, "was", l.Who(), "hostPorts", len(l.Ports))
		}
		if len(r.Links) > 0 {
			log.Info("Interfaces without a Pod are removed", "links", r.Links)
		}
		if r.Restored {
			log.Info("Somebody had removed the Pod network's nftables table; it is there again")
		}
	}
}

func (a netAgent) policies(ctx context.Context) error {
	table, err := policy.Open(policyTable(instance.ID(a.place.dataDir)))
	if err != nil {
		return withFix(err, "install nftables 1.0.1 or newer, or give --network-policy=false")
	}
	config := a.place.networkConfig()
	client, err := a.wide.client()
	if err != nil {
		return err
	}
	k, err := policy.New(policy.Options{Client: client, Table: table, Gate: a.engine.gate, Journal: a.facts, Leases: func() ([]policy.Lease, error) {
		all, err := network.Leases(config)
		var out []policy.Lease
		for _, l := range all {
			out = append(out, policy.Lease{Pod: l.Pod, UID: l.UID, IPs: l.IPs})
		}
		return out, err
	}})
	if err != nil {
		return err
	}
	a.engine.meter.Add(k.Collectors()...)
	return k.Run(ctx)
}

// nodes takes this node's range from its Node, and keeps the ways to the others.
func (a netAgent) nodes(ctx context.Context) error {
	self, err := a.ownRange(ctx)
	if err != nil {
		return err
	}
	if a.wide == nil {
		<-ctx.Done()
		return nil
	}
	client, err := a.wide.client()
	if err != nil {
		return err
	}
	cluster, err := network.ParseRanges(a.place.clusterCIDR)
	if err != nil {
		return err
	}
	if err := a.annotate(ctx); err != nil {
		return err
	}
	links := &peers.Links{ID: instance.ID(a.place.dataDir), Cluster: cluster}
	runs := []func(context.Context) error{func(ctx context.Context) error { return a.follow(ctx, client, links, self) }}
	if a.names != nil {
		runs = append(runs, func(ctx context.Context) error {
			api, err := a.wide()
			if err != nil {
				return err
			}
			return a.names(ctx, api, self.Ranges)
		})
	}
	return together(ctx, runs...)
}

// ownRange waits until the Node has its ranges and makes the network with them; a range given by hand is taken as it is.
func (a netAgent) ownRange(ctx context.Context) (peers.Node, error) {
	self := peers.Node{Name: a.place.nodeName, VTEP: peers.MAC(a.place.nodeName)}
	var err error
	if self.Address, err = netip.ParseAddr(a.place.nodeIP); err != nil {
		return self, fmt.Errorf("--node-ip: %w", err)
	}
	self.Other, _ = netip.ParseAddr(a.place.otherIP) // checked in complete
	if !a.place.given() {
		self.Ranges, err = network.ParseRanges(a.place.podCIDR)
		return self, err
	}
	ranges, err := rangesOf(ctx, a.own, a.place.nodeName)
	if err != nil {
		return self, err
	}
	config := a.place.networkConfig()
	config.PodCIDR = strings.Join(ranges, ",")
	self.Ranges = nodecidr.Parse(ranges)
	return self, a.place.ensureNetwork(ctx, config, a.say)
}

// rangesOf returns the ranges of a Node as soon as it has some.
func rangesOf(ctx context.Context, client kubernetes.Interface, node string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan []string, 1)
	look := func(o any) {
		if n, ok := o.(*v1.Node); ok && len(n.Spec.PodCIDRs) > 0 {
			select {
			case found <- n.Spec.PodCIDRs:
			default:
			}
		}
	}
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", node).String()
	}))
	if _, err := f.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, o any) { look(o) }}); err != nil {
		return nil, err
	}
	f.Start(ctx.Done())
	defer f.Shutdown()
	defer cancel()
	select {
	case ranges := <-found:
		return ranges, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// annotate tells the others where this node's tunnel ends.
func (a netAgent) annotate(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{peers.Annotation: peers.MAC(a.place.nodeName).String()}}})
	if err != nil {
		return err
	}
	for {
		_, err := a.own.CoreV1().Nodes().Patch(ctx, a.place.nodeName, types.MergePatchType, body, metav1.PatchOptions{})
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		klog.FromContext(ctx).Info("The Node is not told yet where this node's tunnel ends", "err", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow keeps routes equal to Nodes and links until ctx ends. They stay then: Pods run on.
func (a netAgent) follow(ctx context.Context, client kubernetes.Interface, links *peers.Links, self peers.Node) error {
	changed, err := peers.Changes(ctx)
	if err != nil {
		return err
	}
	mode, err := peers.ParseMode(a.place.routes)
	if err != nil {
		return err
	}
	f := informers.NewSharedInformerFactory(client, 0)
	nodes, told := f.Core().V1().Nodes().Informer(), make(chan struct{}, 1)
	ring := func(any) {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	handler, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: ring, DeleteFunc: ring, UpdateFunc: func(old, cur any) {
		x, ok1 := old.(*v1.Node)
		if y, ok2 := cur.(*v1.Node); !ok1 || !ok2 || !slices.Equal(x.Spec.PodCIDRs, y.Spec.PodCIDRs) || !slices.Equal(addressesOf(x), addressesOf(y)) || x.Annotations[peers.Annotation] != y.Annotations[peers.Annotation] {
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
	for {
		if err := leadTo(links, peers.In{Self: self, Others: others(nodes), Mode: mode, Cluster: links.Cluster}); err != nil {
			klog.FromContext(ctx).Error(err, "Some Pods of other nodes may not be reached")
		}
		again := time.NewTimer(recheck)
		select {
		case <-told:
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
		again.Stop()
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func leadTo(links *peers.Links, in peers.In) error {
	var addrs []netip.Addr
	for _, n := range in.Others {
		for _, a := range []netip.Addr{n.Address, n.Other} {
			if a.IsValid() {
				addrs = append(addrs, a)
			}
		}
	}
	in.Near = links.Near(addrs)
	if err := links.Apply(peers.Plan(in), in.Self); err != nil {
		return errors.Join(errors.New("routes to other nodes"), err)
	}
	return nil
}

// others are all Nodes as the network sees them.
func others(nodes cache.SharedIndexInformer) []peers.Node {
	var out []peers.Node
	for _, o := range nodes.GetStore().List() {
		n, ok := o.(*v1.Node)
		if !ok {
			continue
		}
		one := peers.Node{Name: n.Name, Ranges: nodecidr.Parse(n.Spec.PodCIDRs)}
		for i, a := range addressesOf(n) {
			if i == 0 {
				one.Address = a
			} else {
				one.Other = a
			}
		}
		if mac, err := net.ParseMAC(n.Annotations[peers.Annotation]); err == nil {
			one.VTEP = mac
		}
		out = append(out, one)
	}
	return out
}

// addressesOf are a Node's first internal address and its first of the other family.
func addressesOf(n *v1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		if err == nil && a.Type == v1.NodeInternalIP && (len(out) == 0 || len(out) == 1 && out[0].Is4() != ip.Is4()) {
			out = append(out, ip)
		}
	}
	return out
}
