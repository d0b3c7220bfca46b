package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// packetAnswer is a packet's way, with why its Service has nobody when that is what stops it.
type packetAnswer struct {
	packet.Result
	Why *explain.Answer `json:"why,omitempty"`
}

// newPacket is `gantry trace packet`.
func newPacket(io IO) *cobra.Command {
	e := &inspector{out: io.Out}
	var from, to, protocol, domain string
	c := &cobra.Command{
		Use:   "packet --from pod/NAME --to service/NAME:PORT",
		Short: "Say what would become of a packet, step by step, without sending it",
		Long: "packet walks from the name to the address, the Service port that has it, the rule, the endpoints it " +
			"leads to, and for each of them policies, route and the\n" +
			"socket at its end. The first step that fails is the verdict, with its reason and what to do. Nothing is " +
			"sent: what decides are the functions that the rules\n" +
			"in the kernel are made from.\n\n" +
			"--from: pod/NAME, pod/NAMESPACE/NAME, node/NAME, or the address of somebody outside.\n" +
			"--to: service/NAME:PORT, pod/NAME:PORT, node/NAME:NODEPORT, ADDRESS:PORT or a name, as the sender would " +
			"write it: db:5432, db.shop.svc.cluster.local:5432.\n\n" +
			"Verdicts: delivered, sometimes (it depends on the endpoint), refused (at once), dropped (the sender " +
			"waits in vain), unresolved, unsent, unknown.",
		Example: "  gantry trace packet --from pod/a --to service/b:80\n  gantry trace packet --from pod/a --to " +
			"db.shop:5432 -o json\n" +
			"  gantry trace packet --from 198.51.100.7 --to node/node-1:30080\n  gantry trace packet --from pod/a " +
			"--to service/dns:53 --protocol udp",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if e.output != "" && e.output != "text" && e.output != "json" {
				return usageError(fmt.Errorf("output %q: must be text or json", e.output))
			}
			client, err := e.newClient()
			if err != nil {
				return err
			}
			ask, err := packet.ReadTo(to, e.namespace, protocol)
			if err != nil {
				return usageError(err)
			}
			if ask.From, err = packet.ReadFrom(from, e.namespace); err != nil {
				return usageError(err)
			}
			return packetCommand{e, client, domain}.trace(c.Context(), ask)
		},
	}
	e.flags(c, "text (default), json")
	c.Flags().StringVar(&from, "from", "", "who sends: pod/NAME, pod/NAMESPACE/NAME, node/NAME or an address")
	c.Flags().StringVar(&to, "to", "",
		"whom it is for, and the port: service/NAME:80, pod/NAME:8080, node/NAME:30080, 10.0.0.1:80, NAME:80")
	c.Flags().StringVar(&protocol, "protocol", "tcp", "tcp, udp or sctp")
	c.Flags().StringVar(&domain, "cluster-domain", "", "domain of the cluster's names (default: cluster.local)")
	return c
}

// packetCommand answers one call of `gantry trace packet`.
type packetCommand struct {
	inspector *inspector
	client    kubernetes.Interface
	domain    string // of the cluster's names; empty: cluster.local
}

func (c packetCommand) trace(ctx context.Context, ask packet.Request) error {
	e, client := c.inspector, c.client
	w, err := readPacketState(ctx, client)
	if err != nil {
		return withFix(err, "be somebody who may list pods, services, endpointslices and nodes")
	}
	w.Domain = c.domain
	reported := packetAnswer{Result: packet.Trace(w, ask)}
	if readSockets(ctx, client, &w, reported.Pods) {
		reported.Result = packet.Trace(w, ask)
	}
	if namespace, name, ok := strings.Cut(reported.Service, "/"); ok && reported.Reason == packet.NoEndpoints {
		other := *e
		other.namespace = namespace
		if why, _, err := answer(ctx, &other, "service/"+name); err == nil {
			reported.Why = &why
		}
	}
	if e.output == "json" {
		return writeJSON(e.out, reported)
	}
	if err := reported.WriteText(e.out); err != nil {
		return err
	}
	if reported.Why == nil {
		return nil
	}
	fmt.Fprintln(e.out)
	return reported.Why.WriteText(e.out, time.Now())
}

// readPacketState reads what packets meet. Of policies and namespaces, what the asker may not see
// is left out.
func readPacketState(ctx context.Context, client kubernetes.Interface) (packet.ClusterState, error) {
	var w packet.ClusterState
	all := metav1.ListOptions{ResourceVersion: "0"}
	pods, err := client.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return w, err
	}
	services, err := client.CoreV1().Services("").List(ctx, all)
	if err != nil {
		return w, err
	}
	slices, err := client.DiscoveryV1().EndpointSlices("").List(ctx, all)
	if err != nil {
		return w, err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return w, err
	}
	w.Pods, w.Services, w.Slices, w.Nodes = pointers(pods.Items), pointers(services.Items), pointers(slices.Items),
		pointers(nodes.Items)
	if list, err := client.NetworkingV1().NetworkPolicies("").List(ctx, all); err == nil {
		w.Policies = pointers(list.Items)
	}
	if len(w.Policies) > 0 {
		w.Policy = packet.NetworkPolicies{}
	}
	if list, err := client.CoreV1().Namespaces().List(ctx, all); err == nil {
		w.Namespaces = pointers(list.Items)
	}
	return w, nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// maxSocketQueries is of how many Pods sockets are asked for.
const maxSocketQueries = 16

// readSockets learns from their kubelets where processes of Pods, NAMESPACE/NAME, listen; it tells
// whether anything was learnt.
func readSockets(ctx context.Context, client kubernetes.Interface, w *packet.ClusterState, names []string) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if w.Sockets == nil {
		w.Sockets = map[types.NamespacedName][]string{}
	}
	learnt := false
	for i, full := range names {
		namespace, name, _ := strings.Cut(full, "/")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if _, known := w.Sockets[key]; known || i >= maxSocketQueries {
			continue
		}
		node := nodeOf(w.Pods, key)
		if node == "" {
			continue
		}
		raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(
			"listening", namespace, name).DoRaw(ctx)
		var found server.Sockets
		if err == nil && json.Unmarshal(raw, &found) == nil {
			w.Sockets[key], learnt = found.Listening, true
		}
	}
	return learnt
}

func nodeOf(pods []*corev1.Pod, key types.NamespacedName) string {
	for _, p := range pods {
		if p.Namespace == key.Namespace && p.Name == key.Name {
			return p.Spec.NodeName
		}
	}
	return ""
}

// servicePackets reads what packets to a Service meet, with the sockets of its Pods; nil when the
// asker may not see it.
func servicePackets(ctx context.Context, client kubernetes.Interface, x *corev1.Service) *packet.ClusterState {
	w, err := readPacketState(ctx, client)
	if err != nil {
		return nil
	}
	for _, ask := range explain.ServicePackets(x) {
		readSockets(ctx, client, &w, packet.Trace(w, ask).Pods)
	}
	return &w
}
