package app

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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

// run works until ctx ends. On somebody else's network there is nothing to do but to end what was on Gantry's before.
func (a netAgent) run(ctx context.Context) error {
	if !a.engine.network {
		if a.engine.awaits != nil {
			a.endLeft(ctx)
		}
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

// endLeft stops the sandboxes that were on Gantry's network before it was left, so that the kubelet makes their Pods anew on the other. The
// runtime can stop them when the other network is there: until then it is tried again.
func (a netAgent) endLeft(ctx context.Context) {
	config := a.place.networkConfig()
	for {
		left, err := network.Left(config)
		if err == nil && len(left) == 0 {
			return
		}
		log := klog.FromContext(ctx)
		if err == nil {
			err = a.engine.lacks()
		}
		for id, who := range left {
			if err != nil {
				break
			}
			if err = a.engine.client.Runtime().StopPodSandbox(ctx, id); err == nil {
				log.Info("Stopped what ran on the network before; it begins anew on the new one", "was", who)
				err = network.Forget(config, id)
			}
		}
		if err != nil && ctx.Err() == nil {
			log.V(2).Info("Pods of the network before are stopped when the new one is there", "pods", len(left), "err", err)
		}
		select {
		case <-time.After(leftEvery):
		case <-ctx.Done():
			return
		}
	}
}

// leftEvery is how often sandboxes of the network before are tried to be stopped.
const leftEvery = 2 * time.Second

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
	beside := newly(a.say)
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
		if other, err := network.Foreign(a.place.networkConfig()); err == nil && other != "" {
			beside("warning: %s lies beside Gantry's own network; restart Gantry, and it takes its own away", other)
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
	if err := a.annotate(ctx, peers.Annotation, peers.MAC(a.place.nodeName).String()); err != nil {
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
