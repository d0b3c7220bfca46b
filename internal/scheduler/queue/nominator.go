package queue

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodechanges"
)

// Nominator keeps which node each Pod is nominated to (status.nominatedNodeName, or the result of
// PostFilter while its write is under way). The lists it gives are never changed: who asks twice
// while nothing changed gets the same list. The caller serializes all calls.
type Nominator struct {
	nodeOf    map[types.UID]string
	podsOn    map[string][]framework.PodInfo // by node, in order of UID
	names     []string                       // of the nodes, sorted
	changeLog nodechanges.Log
}

// NewNominator makes an empty one.
func NewNominator() *Nominator {
	return &Nominator{nodeOf: map[types.UID]string{}, podsOn: map[string][]framework.PodInfo{}}
}

// AddNominatedPod nominates a Pod to a node; an empty name ends its nomination.
func (n *Nominator) AddNominatedPod(p framework.PodInfo, node string) {
	uid := p.GetPod().UID
	if n.nodeOf[uid] != node {
		n.DeleteNominatedPodIfExists(uid)
	}
	if node == "" {
		return
	}
	n.nodeOf[uid] = node
	now := n.podsOn[node]
	at, replaces := findPod(now, uid)
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
	n.podsOn[node] = now
	n.changeLog.Note(node)
}

func findPod(pods []framework.PodInfo, uid types.UID) (at int, found bool) {
	return slices.BinarySearchFunc(pods, uid,
		func(p framework.PodInfo, uid types.UID) int { return cmp.Compare(p.GetPod().UID, uid) })
}

// DeleteNominatedPodIfExists ends a nomination.
func (n *Nominator) DeleteNominatedPodIfExists(uid types.UID) {
	node, ok := n.nodeOf[uid]
	if !ok {
		return
	}
	delete(n.nodeOf, uid)
	at, _ := findPod(n.podsOn[node], uid)
	if left := slices.Concat(n.podsOn[node][:at], n.podsOn[node][at+1:]); len(left) > 0 {
		n.podsOn[node] = left
	} else {
		delete(n.podsOn, node)
		i, _ := slices.BinarySearch(n.names, node)
		n.names = slices.Concat(n.names[:i], n.names[i+1:])
	}
	n.changeLog.Note(node)
}

// UpdateNominatedPod takes in a changed Pod. A nomination made by AddNominatedPod stays when
// neither version of the Pod names a node: its write is still under way.
func (n *Nominator) UpdateNominatedPod(old *v1.Pod, p framework.PodInfo) {
	node := p.GetPod().Status.NominatedNodeName
	if node == "" && (old == nil || old.Status.NominatedNodeName == "") {
		node = n.nodeOf[p.GetPod().UID]
	}
	n.AddNominatedPod(p, node)
}

// NominatedPodsForNode lists the Pods nominated to a node, by UID.
func (n *Nominator) NominatedPodsForNode(node string) []framework.PodInfo { return n.podsOn[node] }

// NominatedNodeName is the node a Pod is nominated to; empty when it is not.
func (n *Nominator) NominatedNodeName(uid types.UID) string { return n.nodeOf[uid] }

// Empty tells whether no Pod is nominated.
func (n *Nominator) Empty() bool { return len(n.nodeOf) == 0 }

// NominatedNodes lists the nodes that Pods are nominated to, sorted; nil when there are none.
func (n *Nominator) NominatedNodes() []string {
	if len(n.names) == 0 {
		return nil
	}
	return n.names
}

// Since lists the nodes whose nominated Pods changed after clock, as nodechanges.Source does.
func (n *Nominator) Since(clock int64) (nodes []string, now int64, known bool) {
	return n.changeLog.Since(clock)
}
