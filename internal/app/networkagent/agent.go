package networkagent

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

// Agent keeps the part of the Pod network that follows the API: this node's range, the routes to
// other nodes, network policies. Its fields are set before Run and not changed afterwards.
type Agent struct {
	Instance         *options.Instance
	ContainerRuntime *noderole.ContainerRuntime
	Client           kubernetes.Interface // as this node

	// ClusterConfig is the connection of who sees all nodes, Pods, namespaces, policies and
	// Services; it may wait until it is let in. Nil: nothing is done that needs it.
	ClusterConfig func() (*rest.Config, error)

	// ServeNames serves the cluster's names to Pods whose addresses are of the ranges, until ctx
	// ends. Nil: they are not served here, or by somebody else.
	ServeNames func(ctx context.Context, api *rest.Config, own []netip.Prefix) error

	Journal journal.Sink // may be nil
	Logf    func(string, ...any)
}

// clusterClient is a client by ClusterConfig.
func (a Agent) clusterClient() (kubernetes.Interface, error) {
	cfg, err := a.ClusterConfig()
	if err != nil {
		return nil, err
	}
	return noderole.ClientFor(cfg, "gantry-network")
}

// How soon changes of nodes and links are followed, and how often routes are looked at without any.
const (
	routeUpdateDelay   = 200 * time.Millisecond
	routeRecheckPeriod = 30 * time.Second
)

// Run works until ctx ends, and returns an error when one of its parts ends before. On somebody
// else's network there is nothing to do but to stop the sandboxes that are on Gantry's own.
func (a Agent) Run(ctx context.Context) error {
	if !a.ContainerRuntime.Network {
		if a.ContainerRuntime.NetworkReady != nil {
			a.stopLeftoverSandboxes(ctx)
		}
		<-ctx.Done()
		return nil
	}
	runs := []func(context.Context) error{a.audit}
	if a.Instance.PodNetwork.ClusterCIDR != "" {
		runs = append(runs, a.nodes)
		if a.ClusterConfig == nil {
			a.Logf("warning: Pods of other nodes are not reached, as this node may not see the others; give " +
				"--network-kubeconfig")
		}
	}
	if a.ContainerRuntime.PolicyListener != nil && a.ClusterConfig != nil {
		runs = append(runs, a.policies)
	}
	return noderole.RunAll(ctx, runs...)
}

// stopLeftoverSandboxes stops the sandboxes that were on Gantry's network before it was left, so
// that the kubelet makes their Pods anew on the other. The runtime can stop them when the other
// network is there: until then it is tried again.
func (a Agent) stopLeftoverSandboxes(ctx context.Context) {
	config := a.Instance.NetworkConfig()
	for {
		left, err := network.LeftoverSandboxes(config)
		if err == nil && len(left) == 0 {
			return
		}
		log := klog.FromContext(ctx)
		if err == nil {
			err = a.ContainerRuntime.NetworkNotReady()
		}
		for id, who := range left {
			if err != nil {
				break
			}
			if err = a.ContainerRuntime.Client.Runtime().StopPodSandbox(ctx, id); err == nil {
				log.Info("Stopped a sandbox of the network before this one; its Pod starts anew", "was", who)
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
func (a Agent) audit(ctx context.Context) error {
	look := network.NewAuditor(a.Instance.NetworkConfig(), func(ctx context.Context) (map[string]bool, error) {
		all, err := a.ContainerRuntime.Client.Runtime().ListPodSandbox(ctx, nil)
		if err != nil {
			return nil, err
		}
		out := map[string]bool{}
		for _, s := range all {
			out[s.Id] = s.State == runtimeapi.PodSandboxState_SANDBOX_READY
		}
		return out, nil
	})
	a.ContainerRuntime.Metrics.Add(look.Collectors()...)
	every := time.NewTicker(routeRecheckPeriod)
	defer every.Stop()
	beside := skipRepeated(a.Logf)
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
		if other, err := network.Foreign(a.Instance.NetworkConfig()); err == nil && other != "" {
			beside("warning: %s lies beside Gantry's own network; restart Gantry, and it takes its own away", other)
		}
		if r.Restored {
			log.Info("Somebody had removed the Pod network's nftables table; it is there again")
		}
	}
}

// policies enforces NetworkPolicies on this node until ctx ends.
func (a Agent) policies(ctx context.Context) error {
	table, err := networkpolicy.Open(noderole.PolicyTable(instance.ID(a.Instance.DataDir)))
	if err != nil {
		return cli.WithFix(err, "install nftables 1.0.1 or newer, or give --network-policy=false")
	}
	config := a.Instance.NetworkConfig()
	client, err := a.clusterClient()
	if err != nil {
		return err
	}
	k, err := networkpolicy.New(networkpolicy.Options{Client: client, Table: table,
		PodListener: a.ContainerRuntime.PolicyListener, Journal: a.Journal,
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
	a.ContainerRuntime.Metrics.Add(k.Collectors()...)
	return k.Run(ctx)
}

// nodes takes this node's range from its Node, and keeps the ways to the others.
func (a Agent) nodes(ctx context.Context) error {
	self, err := a.nodeRanges(ctx)
	if err != nil {
		return err
	}
	if a.ClusterConfig == nil {
		<-ctx.Done()
		return nil
	}
	client, err := a.clusterClient()
	if err != nil {
		return err
	}
	cluster, err := network.ParseRanges(a.Instance.PodNetwork.ClusterCIDR)
	if err != nil {
		return err
	}
	if err := a.annotate(ctx, routes.VTEPAnnotation, routes.MAC(a.Instance.NodeName).String()); err != nil {
		return err
	}
	links := &routes.Router{ID: instance.ID(a.Instance.DataDir), Cluster: cluster}
	runs := []func(context.Context) error{
		func(ctx context.Context) error { return a.syncRoutes(ctx, client, links, self) }}
	if a.ServeNames != nil {
		runs = append(runs, func(ctx context.Context) error {
			api, err := a.ClusterConfig()
			if err != nil {
				return err
			}
			return a.ServeNames(ctx, api, self.Ranges)
		})
	}
	return noderole.RunAll(ctx, runs...)
}

// nodeRanges waits until the Node has its ranges and makes the network with them; a range given by
// hand is taken as it is.
func (a Agent) nodeRanges(ctx context.Context) (routes.Node, error) {
	self := routes.Node{Name: a.Instance.NodeName, VTEP: routes.MAC(a.Instance.NodeName)}
	var err error
	if self.Address, err = netip.ParseAddr(a.Instance.NodeIP); err != nil {
		return self, fmt.Errorf("--node-ip: %w", err)
	}
	self.OtherAddress, _ = netip.ParseAddr(a.Instance.OtherIP) // checked in complete
	if !a.Instance.PodNetwork.RangeFromNode() {
		self.Ranges, err = network.ParseRanges(a.Instance.PodNetwork.PodCIDR)
		return self, err
	}
	ranges, err := PodCIDRs(ctx, a.Client, a.Instance.NodeName)
	if err != nil {
		return self, err
	}
	config := a.Instance.NetworkConfig()
	config.PodCIDR = strings.Join(ranges, ",")
	self.Ranges = nodeipam.Parse(ranges)
	return self, noderole.EnsureNetwork(ctx, a.Instance, config, a.Logf)
}

// PodCIDRs returns spec.podCIDRs of a Node as soon as it has some; an error when ctx ends first.
func PodCIDRs(ctx context.Context, client kubernetes.Interface, node string) ([]string, error) {
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
