package gather

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/trace/packet"
)

// ReadPacketState reads what packets meet. Of policies and namespaces, what the caller may not see
// is left out.
func ReadPacketState(ctx context.Context, client kubernetes.Interface) (packet.ClusterState, error) {
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
	policies, err := client.NetworkingV1().NetworkPolicies("").List(ctx, all)
	if err == nil {
		w.Policies = pointers(policies.Items)
	} else if !absent(err) {
		return w, err
	}
	if len(w.Policies) > 0 {
		w.Policy = packet.NetworkPolicies{}
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, all)
	if err == nil {
		w.Namespaces = pointers(namespaces.Items)
	} else if !absent(err) {
		return w, err
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

// ReadSockets learns from their kubelets where processes of Pods, NAMESPACE/NAME, listen; it tells
// whether anything was learnt.
func ReadSockets(ctx context.Context, client kubernetes.Interface, w *packet.ClusterState, names []string) bool {
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

// podPackets reads what packets of a Pod meet whose containers fail or wait and name addresses; nil
// when none does, or the user may not see it.
func podPackets(ctx context.Context, r *reader, p *corev1.Pod) *packet.ClusterState {
	asks := explain.PodPackets(p)
	if len(asks) == 0 {
		return nil
	}
	return r.packetState(ctx, asks)
}

// packetState is what packets meet, with the sockets of the Pods that the requests may reach; nil
// when the caller may not see it. All questions of one reader share it.
func (r *reader) packetState(ctx context.Context, asks []packet.Request) *packet.ClusterState {
	if r.packets == nil {
		w, err := ReadPacketState(ctx, r.client)
		if !r.seen("what packets meet", err) {
			return nil
		}
		r.packets = &w
	}
	for _, ask := range asks {
		ReadSockets(ctx, r.client, r.packets, packet.Trace(*r.packets, ask).Pods)
	}
	return r.packets
}

// servicePackets reads what packets to a Service meet, with the sockets of its Pods; nil when the
// user may not see it.
func servicePackets(ctx context.Context, r *reader, x *corev1.Service) *packet.ClusterState {
	return r.packetState(ctx, explain.ServicePackets(x))
}
