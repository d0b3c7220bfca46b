package queue

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
)

// Nominated remembers which node each Pod was promised when others were asked to leave for it.
type Nominated struct {
	node map[types.UID]string
	pods map[string]map[types.UID]framework.PodInfo
}

// NewNominated is empty.
func NewNominated() *Nominated {
	return &Nominated{node: map[types.UID]string{}, pods: map[string]map[types.UID]framework.PodInfo{}}
}

// Set promises a node to a Pod; an empty name takes the promise back.
func (n *Nominated) Set(p framework.PodInfo, node string) {
	uid := p.GetPod().UID
	n.Drop(uid)
	if node == "" {
		return
	}
	n.node[uid] = node
	if n.pods[node] == nil {
		n.pods[node] = map[types.UID]framework.PodInfo{}
	}
	n.pods[node][uid] = p
}

// Drop takes a promise back.
func (n *Nominated) Drop(uid types.UID) {
	node, ok := n.node[uid]
	if !ok {
		return
	}
	delete(n.node, uid)
	if delete(n.pods[node], uid); len(n.pods[node]) == 0 {
		delete(n.pods, node)
	}
}

// Update takes in a changed Pod. A promise made here is kept when neither version of the Pod names a node: the write of it is still under way.
func (n *Nominated) Update(old *v1.Pod, p framework.PodInfo) {
	node := p.GetPod().Status.NominatedNodeName
	if node == "" && (old == nil || old.Status.NominatedNodeName == "") {
		node = n.node[p.GetPod().UID]
	}
	n.Set(p, node)
}

// On lists the Pods promised a node, by UID.
func (n *Nominated) On(node string) []framework.PodInfo {
	pods := n.pods[node]
	if len(pods) == 0 {
		return nil
	}
	out := make([]framework.PodInfo, 0, len(pods))
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		out = append(out, pods[uid])
	}
	return out
}

// Of gives the node promised to a Pod.
func (n *Nominated) Of(uid types.UID) string { return n.node[uid] }

// Empty tells whether no promise stands.
func (n *Nominated) Empty() bool { return len(n.node) == 0 }

// Nodes lists the nodes that are promised to somebody; nil when none is.
func (n *Nominated) Nodes() []string {
	if len(n.pods) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(n.pods))
}
