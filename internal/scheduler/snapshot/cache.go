package snapshot

import (
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/pod"
)

// Cache is the cluster as it moves: nodes, Pods on them, and Pods assumed to be on them because a
// binding is under way. It is not safe for concurrent use. Snapshots taken from it are.
type Cache struct {
	nodes             map[string]*nodeItem
	pods              map[types.UID]*podState
	images            map[string]*imageState
	zones             zones
	dirtyNodes        []*nodeItem // since the last UpdateSnapshot
	zonesChanged      bool        // nodes came or went since the last UpdateSnapshot
	nodesWithAffinity int         // nodes that have Pods with affinity
	lastSnapshot      *Snapshot
	imagesGeneration  int64 // grows when the set of nodes that hold an image changes

	termsCache affinityTermsCache
}

// nodeItem is a node's place in the Cache.
type nodeItem struct {
	info             *NodeInfo
	shared           bool // info is in a Snapshot: clone before a change
	index            int  // position in the last Snapshot, -1 when absent
	imagesGeneration int64
}

// podState is a Pod in the Cache; assumed until its binding is confirmed by a watch.
type podState struct {
	info    *PodInfo
	node    string
	assumed bool
}

// NewCache is an empty cluster.
func NewCache() *Cache {
	return &Cache{nodes: map[string]*nodeItem{}, pods: map[types.UID]*podState{}, images: map[string]*imageState{},
		lastSnapshot: &Snapshot{}}
}

// SetNode adds or replaces a node.
func (w *Cache) SetNode(node *v1.Node) {
	s := w.writableNode(node.Name)
	if old := s.info.node; old == nil {
		w.zones.add(node)
		w.zonesChanged = true
	} else if zoneOf(old) != zoneOf(node) {
		w.zones.remove(old)
		w.zones.add(node)
		w.zonesChanged = true
	}
	w.setImages(s, node)
	s.info.SetNode(node)
}

// RemoveNode forgets a node. Pods known to stand on it are kept until they are removed themselves.
func (w *Cache) RemoveNode(name string) {
	s := w.nodes[name]
	if s == nil || s.info.node == nil {
		return
	}
	w.zones.remove(s.info.node)
	w.zonesChanged = true
	s = w.writableNode(name)
	w.dropImages(s)
	s.info.SetNode(nil)
	w.removeEmptyNode(name)
}

// Node gives the node as it is now, nil when it is not known.
func (w *Cache) Node(name string) *v1.Node {
	if s := w.nodes[name]; s != nil {
		return s.info.node
	}
	return nil
}

// SetPod takes in what the API says of a Pod: one with a node is put there, and confirms an
// assumption or corrects it; one that has ended is removed.
func (w *Cache) SetPod(p *v1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	if pod.IsTerminal(p) {
		w.RemovePod(p.UID)
		return
	}
	if r := w.pods[p.UID]; r != nil && r.isConfirmedBy(p) {
		r.assumed = false
		return
	}
	w.remove(p.UID)
	w.addPod(&podState{info: w.podInfoOf(p), node: p.Spec.NodeName})
}

// isConfirmedBy tells whether the API shows what was assumed and nothing else, so that nobody has
// to evaluate the node anew. Pods that share their containers' memory were decoded from one spec
// (wire) and differ in nothing of it but the node; Pods that do not are compared by nobody.
func (r *podState) isConfirmedBy(p *v1.Pod) bool {
	was := r.info.pod
	return r.assumed && r.node == p.Spec.NodeName && len(p.Spec.Containers) > 0 &&
		len(was.Spec.Containers) == len(p.Spec.Containers) && &was.Spec.Containers[0] == &p.Spec.Containers[0] &&
		p.DeletionTimestamp == nil && was.DeletionTimestamp == nil && maps.Equal(was.Labels, p.Labels) &&
		maps.Equal(was.Annotations, p.Annotations) &&
		len(was.OwnerReferences) == len(p.OwnerReferences) &&
		len(p.Status.ContainerStatuses)+len(p.Status.InitContainerStatuses) == 0 && p.Status.Resources == nil
}

// RemovePod forgets a Pod.
func (w *Cache) RemovePod(uid types.UID) { w.remove(uid) }

// AssumePod puts a Pod onto a node before the API server knows. It is an error when the Pod already
// stands somewhere.
func (w *Cache) AssumePod(p *v1.Pod, node string) error {
	if r := w.pods[p.UID]; r != nil {
		return fmt.Errorf("Pod %s already stands on %s", pod.Key(p), r.node)
	}
	w.addPod(&podState{info: w.podInfoOf(p), node: node, assumed: true})
	return nil
}

func (w *Cache) podInfoOf(p *v1.Pod) *PodInfo {
	i := &PodInfo{pod: p, affinityTerms: w.termsCache.terms(p)}
	i.requests, i.nonZeroRequests = RequestsAndNonZero(p)
	return i
}

// ForgetPod takes an assumption back; a confirmed Pod stays.
func (w *Cache) ForgetPod(uid types.UID) {
	if r := w.pods[uid]; r != nil && r.assumed {
		w.remove(uid)
	}
}

// IsAssumedPod tells whether the Pod stands on a node by assumption only.
func (w *Cache) IsAssumedPod(uid types.UID) bool {
	r := w.pods[uid]
	return r != nil && r.assumed
}

// Pod gives a Pod that stands on a node, and the node's name.
func (w *Cache) Pod(uid types.UID) (*v1.Pod, string) {
	if r := w.pods[uid]; r != nil {
		return r.info.pod, r.node
	}
	return nil, ""
}

// Counts gives the number of nodes, of Pods on them, and of Pods assumed.
func (w *Cache) Counts() (nodes, pods, assumed int) {
	for _, r := range w.pods {
		if r.assumed {
			assumed++
		}
	}
	return w.zones.len(), len(w.pods), assumed
}

// addPod counts a Pod on its node, which need not be known yet.
func (w *Cache) addPod(r *podState) {
	s := w.writableNode(r.node)
	before := len(s.info.podsWithAffinity) > 0
	s.info.AddPodInfo(r.info)
	w.pods[r.info.pod.UID] = r
	w.updateAffinityCount(before, s)
}

// remove takes a Pod off its node; an unknown uid changes nothing. A node that has no Node object
// and no Pods any longer goes too.
func (w *Cache) remove(uid types.UID) {
	r := w.pods[uid]
	if r == nil {
		return
	}
	delete(w.pods, uid)
	s := w.writableNode(r.node)
	before := len(s.info.podsWithAffinity) > 0
	_ = s.info.RemovePod(logr.Discard(), r.info.pod) // it stands there: put placed it
	w.updateAffinityCount(before, s)
	w.removeEmptyNode(r.node)
}

// updateAffinityCount keeps the number of nodes that have Pods with affinity; before says whether s
// had any before the change.
func (w *Cache) updateAffinityCount(before bool, s *nodeItem) {
	switch after := len(s.info.podsWithAffinity) > 0; {
	case after && !before:
		w.nodesWithAffinity++
	case before && !after:
		w.nodesWithAffinity--
	}
}

// writableNode gives a node's place with an info that may be changed, and remembers the change.
func (w *Cache) writableNode(name string) *nodeItem {
	s := w.nodes[name]
	switch {
	case s == nil:
		s = &nodeItem{info: NewNodeInfo(nil), index: -1}
		w.nodes[name] = s
		w.dirtyNodes = append(w.dirtyNodes, s)
	case s.shared:
		s.info, s.shared = s.info.nextGeneration(), false
		w.dirtyNodes = append(w.dirtyNodes, s)
	}
	return s
}

func (w *Cache) removeEmptyNode(name string) {
	if s := w.nodes[name]; s != nil && s.info.node == nil && len(s.info.pods) == 0 {
		delete(w.nodes, name)
	}
}

// UpdateSnapshot gives the cluster as it is now. Cost: one pointer per node, and the nodes that
// changed.
func (w *Cache) UpdateSnapshot() *Snapshot {
	if len(w.dirtyNodes) == 0 && !w.zonesChanged {
		return w.lastSnapshot
	}
	for _, s := range w.dirtyNodes {
		w.refreshImages(s)
	}
	next := &Snapshot{generation: w.lastSnapshot.generation + 1, index: w.lastSnapshot.index,
		layout: w.lastSnapshot.layout, hasAffinity: w.nodesWithAffinity > 0}
	if w.zonesChanged {
		w.rebuild(next)
	} else {
		w.copyChanged(next)
	}
	for _, s := range w.dirtyNodes {
		s.shared = true
	}
	w.dirtyNodes, w.zonesChanged = w.dirtyNodes[:0], false
	w.lastSnapshot = next
	return next
}

// copyChanged puts the changed nodes into their places.
func (w *Cache) copyChanged(next *Snapshot) {
	next.nodeList, next.changes = w.lastSnapshot.copy(), w.lastSnapshot.changes
	if len(next.changes.entries) > maxChanges*next.n+pageSize {
		next.changes = changeLog{from: w.lastSnapshot.generation}
	}
	for _, s := range w.dirtyNodes {
		if s.index < 0 {
			continue
		}
		next.set(&w.lastSnapshot.nodeList, s.index, s.info)
		next.changes.entries = append(next.changes.entries, nodeChange{next.generation, int32(s.index)})
	}
}

// rebuild makes the next snapshot's list of nodes anew: their number or their zones changed, so
// that every row may be another node.
func (w *Cache) rebuild(next *Snapshot) {
	for i := range w.lastSnapshot.n {
		if s := w.nodes[w.lastSnapshot.at(i).node.Name]; s != nil {
			s.index = -1
		}
	}
	names := w.zones.interleaved()
	list := make([]*NodeInfo, len(names))
	next.index = make(map[string]int, len(names))
	for i, name := range names {
		s := w.nodes[name]
		s.index, list[i], next.index[name] = i, s.info, i
	}
	next.nodeList, next.layout, next.changes = newNodeList(list), next.generation, changeLog{from: next.generation}
}
