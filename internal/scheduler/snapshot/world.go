package snapshot

import (
	"fmt"
	"maps"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/pod"
)

// World is the cluster as it moves: nodes, Pods on them, and Pods assumed to be on them because a binding is under way.
// It is not safe for concurrent use. Snapshots taken from it are.
type World struct {
	nodes   map[string]*stand
	pods    map[types.UID]*resident
	images  map[string]*image
	zones   zones
	changed []*stand // since the last Freeze
	regroup bool     // nodes came or went since the last Freeze
	affine  int      // nodes that have Pods with affinity
	last    *Snapshot
	imaged  int64 // grows when the set of nodes that hold an image changes

	readings readings
}

// stand is a node's place in the World.
type stand struct {
	info   *NodeInfo
	frozen bool // info is in a Snapshot: clone before a change
	at     int  // position in the last Snapshot, -1 when absent
	imaged int64
}

type resident struct {
	info    *PodInfo
	node    string
	assumed bool
}

// NewWorld is an empty cluster.
func NewWorld() *World {
	return &World{nodes: map[string]*stand{}, pods: map[types.UID]*resident{}, images: map[string]*image{}, last: &Snapshot{}}
}

// SetNode adds or replaces a node.
func (w *World) SetNode(node *v1.Node) {
	s := w.thaw(node.Name)
	if old := s.info.node; old == nil {
		w.zones.add(node)
		w.regroup = true
	} else if zoneOf(old) != zoneOf(node) {
		w.zones.remove(old)
		w.zones.add(node)
		w.regroup = true
	}
	w.setImages(s, node)
	s.info.SetNode(node)
}

// RemoveNode forgets a node. Pods known to stand on it are kept until they are removed themselves.
func (w *World) RemoveNode(name string) {
	s := w.nodes[name]
	if s == nil || s.info.node == nil {
		return
	}
	w.zones.remove(s.info.node)
	w.regroup = true
	s = w.thaw(name)
	w.dropImages(s)
	s.info.SetNode(nil)
	w.forgetEmpty(name)
}

// Node gives the node as it is now, nil when it is not known.
func (w *World) Node(name string) *v1.Node {
	if s := w.nodes[name]; s != nil {
		return s.info.node
	}
	return nil
}

// SetPod takes in what the API says of a Pod: one with a node is put there, and confirms an assumption or corrects it; one that has ended is removed.
func (w *World) SetPod(p *v1.Pod) {
	if p.Spec.NodeName == "" {
		return
	}
	if pod.IsTerminal(p) {
		w.RemovePod(p.UID)
		return
	}
	if r := w.pods[p.UID]; r != nil && r.confirmedBy(p) {
		r.assumed = false
		return
	}
	w.remove(p.UID)
	w.put(&resident{info: w.read(p), node: p.Spec.NodeName})
}

// confirmedBy tells whether the API shows what was assumed and nothing else, so that nobody has to judge the node anew. Pods that share their containers' memory were
// decoded from one spec (wire) and differ in nothing of it but the node; Pods that do not are compared by nobody.
func (r *resident) confirmedBy(p *v1.Pod) bool {
	was := r.info.pod
	return r.assumed && r.node == p.Spec.NodeName && len(p.Spec.Containers) > 0 && len(was.Spec.Containers) == len(p.Spec.Containers) && &was.Spec.Containers[0] == &p.Spec.Containers[0] &&
		p.DeletionTimestamp == nil && was.DeletionTimestamp == nil && maps.Equal(was.Labels, p.Labels) && maps.Equal(was.Annotations, p.Annotations) &&
		len(was.OwnerReferences) == len(p.OwnerReferences) && len(p.Status.ContainerStatuses)+len(p.Status.InitContainerStatuses) == 0 && p.Status.Resources == nil
}

// RemovePod forgets a Pod.
func (w *World) RemovePod(uid types.UID) { w.remove(uid) }

// Assume puts a Pod onto a node before the API server knows. It is an error when the Pod already stands somewhere.
func (w *World) Assume(p *v1.Pod, node string) error {
	if r := w.pods[p.UID]; r != nil {
		return fmt.Errorf("Pod %s already stands on %s", pod.Key(p), r.node)
	}
	w.put(&resident{info: w.read(p), node: node, assumed: true})
	return nil
}

func (w *World) read(p *v1.Pod) *PodInfo {
	i := &PodInfo{pod: p, terms: w.readings.terms(p)}
	i.ask, i.non0 = Asks(p)
	return i
}

// Forget takes an assumption back; a confirmed Pod stays.
func (w *World) Forget(uid types.UID) {
	if r := w.pods[uid]; r != nil && r.assumed {
		w.remove(uid)
	}
}

// Assumed tells whether the Pod stands on a node by assumption only.
func (w *World) Assumed(uid types.UID) bool {
	r := w.pods[uid]
	return r != nil && r.assumed
}

// Pod gives a Pod that stands on a node, and the node's name.
func (w *World) Pod(uid types.UID) (*v1.Pod, string) {
	if r := w.pods[uid]; r != nil {
		return r.info.pod, r.node
	}
	return nil, ""
}

// Count gives the number of nodes, of Pods on them, and of Pods assumed.
func (w *World) Count() (nodes, pods, assumed int) {
	for _, r := range w.pods {
		if r.assumed {
			assumed++
		}
	}
	return w.zones.len(), len(w.pods), assumed
}

func (w *World) put(r *resident) {
	s := w.thaw(r.node)
	before := len(s.info.affine) > 0
	s.info.AddPodInfo(r.info)
	w.pods[r.info.pod.UID] = r
	w.countAffine(before, s)
}

func (w *World) remove(uid types.UID) {
	r := w.pods[uid]
	if r == nil {
		return
	}
	delete(w.pods, uid)
	s := w.thaw(r.node)
	before := len(s.info.affine) > 0
	_ = s.info.RemovePod(logr.Discard(), r.info.pod) // it stands there: put placed it
	w.countAffine(before, s)
	w.forgetEmpty(r.node)
}

func (w *World) countAffine(before bool, s *stand) {
	switch after := len(s.info.affine) > 0; {
	case after && !before:
		w.affine++
	case before && !after:
		w.affine--
	}
}

// thaw gives a node's place with an info that may be changed, and remembers the change.
func (w *World) thaw(name string) *stand {
	s := w.nodes[name]
	switch {
	case s == nil:
		s = &stand{info: NewNodeInfo(nil), at: -1}
		w.nodes[name] = s
		w.changed = append(w.changed, s)
	case s.frozen:
		s.info, s.frozen = s.info.next(), false
		w.changed = append(w.changed, s)
	}
	return s
}

func (w *World) forgetEmpty(name string) {
	if s := w.nodes[name]; s != nil && s.info.node == nil && len(s.info.pods) == 0 {
		delete(w.nodes, name)
	}
}

// Freeze gives the cluster as it is now. Cost: one pointer per node, and the nodes that changed.
func (w *World) Freeze() *Snapshot {
	if len(w.changed) == 0 && !w.regroup {
		return w.last
	}
	for _, s := range w.changed {
		w.refreshImages(s)
	}
	next := &Snapshot{generation: w.last.generation + 1, index: w.last.index, layout: w.last.layout, affine: w.affine > 0}
	if w.regroup {
		w.rebuild(next)
	} else {
		w.follow(next)
	}
	for _, s := range w.changed {
		s.frozen = true
	}
	w.changed, w.regroup = w.changed[:0], false
	w.last = next
	return next
}

// follow puts the changed nodes into their places.
func (w *World) follow(next *Snapshot) {
	next.pages, next.moves = w.last.version(), w.last.moves
	if len(next.moves.log) > movesKept*next.n+pageSize {
		next.moves = moves{from: w.last.generation}
	}
	for _, s := range w.changed {
		if s.at < 0 {
			continue
		}
		next.set(&w.last.pages, s.at, s.info)
		next.moves.log = append(next.moves.log, move{next.generation, int32(s.at)})
	}
}

func (w *World) rebuild(next *Snapshot) {
	for i := range w.last.n {
		if s := w.nodes[w.last.at(i).node.Name]; s != nil {
			s.at = -1
		}
	}
	names := w.zones.interleaved()
	list := make([]*NodeInfo, len(names))
	next.index = make(map[string]int, len(names))
	for i, name := range names {
		s := w.nodes[name]
		s.at, list[i], next.index[name] = i, s.info, i
	}
	next.pages, next.layout, next.moves = paged(list), next.generation, moves{from: next.generation}
}
