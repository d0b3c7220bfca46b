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

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/nodeipam"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/network/routes"
	"github.com/gantry-project/gantry/internal/networkpolicy"
	"github.com/gantry-project/gantry/internal/options"
)

// networkAgent keeps the part of the Pod network that follows the API: this node's range, the ways
// to other nodes, network policies.
type networkAgent struct {
	instance         *options.Instance
	containerRuntime *noderole.ContainerRuntime
	own              kubernetes.Interface // as this node
	clusterClient    clusterClientFunc    // nil: nothing is done that needs it
	serveNames       serveNamesFunc       // nil: the cluster's names are not served here, or by somebody else
	facts            journal.Sink         // may be nil
	logf             func(string, ...any)
}

// clusterClientFunc is who sees all nodes, Pods, namespaces, policies and Services; it may have to
// wait until it is let in.
type clusterClientFunc func() (*rest.Config, error)

// client is one for the parts of the agent.
func (w clusterClientFunc) client() (kubernetes.Interface, error) {
	cfg, err := w()
	if err != nil {
		return nil, err
	}
	return noderole.ClientFor(cfg, "gantry-network")
}

// serveNamesFunc serves the cluster's names to Pods whose addresses are of the ranges.
type serveNamesFunc func(ctx context.Context, api *rest.Config, own []netip.Prefix) error

// How soon changes of nodes and links are followed, and how often routes are looked at without any.
const (
	routeUpdateDelay   = 200 * time.Millisecond
	routeRecheckPeriod = 30 * time.Second
)

func (u *Up) runNetworkAgent(ctx context.Context, c runningCluster, own kubernetes.Interface) error {
	wide := c.server.InProcess(controllersUser())
	return networkAgent{instance: &u.Instance, containerRuntime: c.containerRuntime, own: own,
		clusterClient: func() (*rest.Config, error) { return wide, nil },
		facts:         c.log.SinkFor("kubelet", u.Instance.NodeName),
		logf:          u.Out.Step}.run(ctx)
}

// run works until ctx ends. On somebody else's network there is nothing to do but to end what was
// on Gantry's before.
func (a networkAgent) run(ctx context.Context) error {
	if !a.containerRuntime.Network {
		if a.containerRuntime.NetworkReady != nil {
			a.stopLeftoverSandboxes(ctx)
		}
		<-ctx.Done()
		return nil
	}
	runs := []func(context.Context) error{a.audit}
	if a.instance.PodNetwork.ClusterCIDR != "" {
		runs = append(runs, a.nodes)
		if a.clusterClient == nil {
			a.logf("warning: Pods of other nodes are not reached, as this node may not see the others; give " +
				"--network-kubeconfig")
		}
	}
	if a.containerRuntime.PolicyListener != nil && a.clusterClient != nil {
		runs = append(runs, a.policies)
	}
	return noderole.RunAll(ctx, runs...)
}

// stopLeftoverSandboxes stops the sandboxes that were on Gantry's network before it was left, so
// that the kubelet makes their Pods anew on the other. The runtime can stop them when the other
// network is there: until then it is tried again.
func (a networkAgent) stopLeftoverSandboxes(ctx context.Context) {
	config := a.instance.NetworkConfig()
	for {
		left, err := network.LeftoverSandboxes(config)
		if err == nil && len(left) == 0 {
			return
		}
		log := klog.FromContext(ctx)
		if err == nil {
			err = a.containerRuntime.NetworkNotReady()
		}
		for id, who := range left {
			if err != nil {
				break
			}
			if err = a.containerRuntime.Client.Runtime().StopPodSandbox(ctx, id); err == nil {
				log.Info("Stopped what ran on the network before; it begins anew on the new one", "was", who)
				err = network.ReleaseSandbox(config, id)
			}
		}
		if err != nil && ctx.Err() == nil {
			log.V(2).Info("Pods of the network before are stopped when the new one is there", "pods", len(left),
				"err", err)
		}
		select {
		case <-time.After(leftoverRetryPeriod):
		case <-ctx.Done():
			return
		}
	}
}

// leftoverRetryPeriod is how often sandboxes of the network before are tried to be stopped.
const leftoverRetryPeriod = 2 * time.Second

// audit gives back, as long as the node runs, what Pods left that are gone.
func (a networkAgent) audit(ctx context.Context) error {
	look := network.NewAuditor(a.instance.NetworkConfig(), func(ctx context.Context) (map[string]bool, error) {
		all, err := a.containerRuntime.Client.Runtime().ListPodSandbox(ctx, nil)
		if err != nil {
			return nil, err
		}
		out := map[string]bool{}
		for _, s := range all {
			out[s.Id] = s.State == runtimeapi.PodSandboxState_SANDBOX_READY
		}
		return out, nil
	})
	a.containerRuntime.Metrics.Add(look.Collectors()...)
	every := time.NewTicker(routeRecheckPeriod)
	defer every.Stop()
	beside := skipRepeated(a.logf)
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		r, err := look.Audit(ctx)
		log := klog.FromContext(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "The audit of Pods' addresses is not complete; it is made again",
				"every", routeRecheckPeriod)
		}
		for _, l := range r.Leases {
			log.Info("Nobody held an address any more; it is free again", "ips", l.IPs, "was", l.Holder(),
				"hostPorts", len(l.Ports))
		}
		if len(r.Links) > 0 {
			log.Info("Interfaces without a Pod are removed", "links", r.Links)
		}
		if other, err := network.Foreign(a.instance.NetworkConfig()); err == nil && other != "" {
			beside("warning: %s lies beside Gantry's own network; restart Gantry, and it takes its own away", other)
		}
		if r.Restored {
			log.Info("Somebody had removed the Pod network's nftables table; it is there again")
		}
	}
}

// policies enforces NetworkPolicies on this node until ctx ends.
func (a networkAgent) policies(ctx context.Context) error {
	table, err := networkpolicy.Open(noderole.PolicyTable(instance.ID(a.instance.DataDir)))
	if err != nil {
		return cli.WithFix(err, "install nftables 1.0.1 or newer, or give --network-policy=false")
	}
	config := a.instance.NetworkConfig()
	client, err := a.clusterClient.client()
	if err != nil {
		return err
	}
	k, err := networkpolicy.New(networkpolicy.Options{Client: client, Table: table,
		PodListener: a.containerRuntime.PolicyListener, Journal: a.facts,
		Leases: func() ([]networkpolicy.Lease, error) {
			all, err := network.Leases(config)
			var out []networkpolicy.Lease
			for _, l := range all {
				out = append(out, networkpolicy.Lease{Pod: l.Pod, UID: l.UID, IPs: l.IPs})
			}
			return out, err
		}})
	if err != nil {
		return err
	}
	a.containerRuntime.Metrics.Add(k.Collectors()...)
	return k.Run(ctx)
}

// nodes takes this node's range from its Node, and keeps the ways to the others.
func (a networkAgent) nodes(ctx context.Context) error {
	self, err := a.nodeRanges(ctx)
	if err != nil {
		return err
	}
	if a.clusterClient == nil {
		<-ctx.Done()
		return nil
	}
	client, err := a.clusterClient.client()
	if err != nil {
		return err
	}
	cluster, err := network.ParseRanges(a.instance.PodNetwork.ClusterCIDR)
	if err != nil {
		return err
	}
	if err := a.annotate(ctx, routes.VTEPAnnotation, routes.MAC(a.instance.NodeName).String()); err != nil {
		return err
	}
	links := &routes.Router{ID: instance.ID(a.instance.DataDir), Cluster: cluster}
	runs := []func(context.Context) error{
		func(ctx context.Context) error { return a.syncRoutes(ctx, client, links, self) }}
	if a.serveNames != nil {
		runs = append(runs, func(ctx context.Context) error {
			api, err := a.clusterClient()
			if err != nil {
				return err
			}
			return a.serveNames(ctx, api, self.Ranges)
		})
	}
	return noderole.RunAll(ctx, runs...)
}

// nodeRanges waits until the Node has its ranges and makes the network with them; a range given by
// hand is taken as it is.
func (a networkAgent) nodeRanges(ctx context.Context) (routes.Node, error) {
	self := routes.Node{Name: a.instance.NodeName, VTEP: routes.MAC(a.instance.NodeName)}
	var err error
	if self.Address, err = netip.ParseAddr(a.instance.NodeIP); err != nil {
		return self, fmt.Errorf("--node-ip: %w", err)
	}
	self.OtherAddress, _ = netip.ParseAddr(a.instance.OtherIP) // checked in complete
	if !a.instance.PodNetwork.RangeFromNode() {
		self.Ranges, err = network.ParseRanges(a.instance.PodNetwork.PodCIDR)
		return self, err
	}
	ranges, err := rangesOf(ctx, a.own, a.instance.NodeName)
	if err != nil {
		return self, err
	}
	config := a.instance.NetworkConfig()
	config.PodCIDR = strings.Join(ranges, ",")
	self.Ranges = nodeipam.Parse(ranges)
	return self, noderole.EnsureNetwork(ctx, a.instance, config, a.logf)
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
	f := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", node).String()
		}))
	if _, err := f.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: look,
		UpdateFunc: func(_, o any) { look(o) }}); err != nil {
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
