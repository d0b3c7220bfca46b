package queue

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/changes"
)

// Nominated remembers which node each Pod was promised when others were asked to leave for it. What it hands out it never changes: whoever asks again while nothing
// changed is given the same list.
type Nominated struct {
	node  map[types.UID]string
	pods  map[string][]framework.PodInfo // by node, in order of UID
	names []string                       // of the nodes, sorted
	log   changes.Log
}

// NewNominated is empty.
func NewNominated() *Nominated {
	return &Nominated{node: map[types.UID]string{}, pods: map[string][]framework.PodInfo{}}
}

// Set promises a node to a Pod; an empty name takes the promise back.
func (n *Nominated) Set(p framework.PodInfo, node string) {
	uid := p.GetPod().UID
	if n.node[uid] != node {
		n.Drop(uid)
	}
	if node == "" {
		return
	}
	n.node[uid] = node
	now := n.pods[node]
	at, replaces := find(now, uid)
	switch {
	case replaces && now[at] == p:
		return
	case replaces:
		now = slices.Clone(now)
		now[at] = p
	default:
		if len(now) == 0 {
			i, _ := slices.BinarySearch(n.names, node)
			n.names = slices.Concat(n.names[:i], []string{node}, n.names[i:])
		}
		now = slices.Concat(now[:at], []framework.PodInfo{p}, now[at:])
	}
	n.pods[node] = now
	n.log.Note(node)
}

func find(pods []framework.PodInfo, uid types.UID) (at int, found bool) {
	return slices.BinarySearchFunc(pods, uid, func(p framework.PodInfo, uid types.UID) int { return cmp.Compare(p.GetPod().UID, uid) })
}

// Drop takes a promise back.
func (n *Nominated) Drop(uid types.UID) {
	node, ok := n.node[uid]
	if !ok {
		return
	}
	delete(n.node, uid)
	at, _ := find(n.pods[node], uid)
	if left := slices.Concat(n.pods[node][:at], n.pods[node][at+1:]); len(left) > 0 {
		n.pods[node] = left
	} else {
		delete(n.pods, node)
		i, _ := slices.BinarySearch(n.names, node)
		n.names = slices.Concat(n.names[:i], n.names[i+1:])
	}
	n.log.Note(node)
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
func (n *Nominated) On(node string) []framework.PodInfo { return n.pods[node] }

// Of gives the node promised to a Pod.
func (n *Nominated) Of(uid types.UID) string { return n.node[uid] }

// Empty tells whether no promise stands.
func (n *Nominated) Empty() bool { return len(n.node) == 0 }

// Nodes lists the nodes that are promised to somebody, sorted; nil when none is.
func (n *Nominated) Nodes() []string {
	if len(n.names) == 0 {
		return nil
	}
	return n.names
}

// Since lists the nodes whose promises changed after a time, as changes.Source does.
func (n *Nominated) Since(clock int64) (nodes []string, now int64, known bool) {
	return n.log.Since(clock)
}
