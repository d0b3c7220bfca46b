package node

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Graph knows which node needs which object. The zero value is not usable; see NewGraph.
//
// A Pod leads straight to its node; a PersistentVolume leads to its claim, which Pods lead to
// nodes.
type Graph struct {
	mu              sync.RWMutex
	changed         chan struct{} // closed, and made anew, when Pods change
	pods            map[types.NamespacedName]podEntry
	refs            map[vertex]map[string]int // object -> node -> how many Pods there refer to it
	pvs             map[string]pvEntry
	volumesBySecret map[vertex]map[string]bool // Secret -> PersistentVolumes that name it
	nodeByObject    map[vertex]string          // VolumeAttachments and ResourceSlices -> the one node they name
}

type podEntry struct {
	uid      types.UID
	deletion *metav1.Time
	node     string
	refs     []vertex
}

type pvEntry struct {
	claim   vertex
	secrets []vertex
}

// NewGraph makes an empty index.
func NewGraph() *Graph {
	return &Graph{
		changed: make(chan struct{}),
		pods:    map[types.NamespacedName]podEntry{}, refs: map[vertex]map[string]int{}, pvs: map[string]pvEntry{},
		volumesBySecret: map[vertex]map[string]bool{}, nodeByObject: map[vertex]string{},
	}
}

// AddPod takes a Pod as it is now.
func (x *Graph) AddPod(p *corev1.Pod) {
	e := podEntry{uid: p.UID, deletion: p.DeletionTimestamp, node: p.Spec.NodeName}
	if e.node != "" {
		e.refs = podReferences(p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	x.deletePodLocked(key)
	x.pods[key] = e
	for _, t := range e.refs {
		if x.refs[t] == nil {
			x.refs[t] = map[string]int{}
		}
		x.refs[t][e.node]++
	}
	close(x.changed)
	x.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of a Pod.
func (x *Graph) Changed() <-chan struct{} {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.changed
}

// DeletePod forgets a Pod.
func (x *Graph) DeletePod(key types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deletePodLocked(key)
}

func (x *Graph) deletePodLocked(key types.NamespacedName) {
	e, ok := x.pods[key]
	if !ok {
		return
	}
	delete(x.pods, key)
	for _, t := range e.refs {
		nodes := x.refs[t]
		if nodes[e.node]--; nodes[e.node] <= 0 {
			delete(nodes, e.node)
		}
		if len(nodes) == 0 {
			delete(x.refs, t)
		}
	}
}

// ReplacePods takes the whole list of Pods.
func (x *Graph) ReplacePods(pods []*corev1.Pod) {
	keep := map[types.NamespacedName]bool{}
	for _, p := range pods {
		keep[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = true
		x.AddPod(p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.pods {
		if !keep[key] {
			x.deletePodLocked(key)
		}
	}
}

// Pod returns what the index knows of a Pod: its uid, deletion time and node, as a Pod with nothing
// else in it.
func (x *Graph) Pod(namespace, name string) (*corev1.Pod, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	e, ok := x.pods[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		return nil, false
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: e.uid, DeletionTimestamp: e.deletion},
		Spec:       corev1.PodSpec{NodeName: e.node},
	}, true
}

// AddPV takes a PersistentVolume as it is now.
func (x *Graph) AddPV(pv *corev1.PersistentVolume) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deletePVLocked(pv.Name)
	if pv.Spec.ClaimRef == nil {
		return
	}
	e := pvEntry{claim: vertex{"persistentvolumeclaims", pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name},
		secrets: volumeSecrets(pv)}
	x.pvs[pv.Name] = e
	for _, s := range e.secrets {
		if x.volumesBySecret[s] == nil {
			x.volumesBySecret[s] = map[string]bool{}
		}
		x.volumesBySecret[s][pv.Name] = true
	}
}

// DeletePV forgets a PersistentVolume.
func (x *Graph) DeletePV(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deletePVLocked(name)
}

func (x *Graph) deletePVLocked(name string) {
	for _, s := range x.pvs[name].secrets {
		delete(x.volumesBySecret[s], name)
		if len(x.volumesBySecret[s]) == 0 {
			delete(x.volumesBySecret, s)
		}
	}
	delete(x.pvs, name)
}

// SetObjectNode takes a VolumeAttachment or ResourceSlice (kind is the resource name) and the node
// it names; an empty node forgets it.
func (x *Graph) SetObjectNode(kind, name, node string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if node == "" {
		delete(x.nodeByObject, vertex{kind, "", name})
		return
	}
	x.nodeByObject[vertex{kind, "", name}] = node
}

// HasPathFrom tells whether a node may reach an object, kind being its resource name.
func (x *Graph) HasPathFrom(node, kind, namespace, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t := vertex{kind, namespace, name}
	switch kind {
	case "persistentvolumes":
		e, ok := x.pvs[name]
		return ok && x.refs[e.claim][node] > 0
	case "volumeattachments", "resourceslices":
		return x.nodeByObject[t] == node && node != ""
	case "secrets":
		for pv := range x.volumesBySecret[t] {
			if x.refs[x.pvs[pv].claim][node] > 0 {
				return true
			}
		}
	}
	return x.refs[t][node] > 0
}
