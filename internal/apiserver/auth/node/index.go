package node

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Index knows which node needs which object. The zero value is not usable; see NewIndex.
//
// A Pod leads straight to its node; a PersistentVolume leads to its claim, which Pods lead to nodes.
type Index struct {
	mu    sync.RWMutex
	moved chan struct{} // closed, and made anew, when Pods change
	pods  map[types.NamespacedName]podEntry
	needs map[thing]map[string]int // object -> node -> how many Pods there refer to it
	pvs   map[string]pvEntry
	via   map[thing]map[string]bool // Secret -> PersistentVolumes that name it
	named map[thing]string          // VolumeAttachments and ResourceSlices -> the one node they name
}

type podEntry struct {
	uid      types.UID
	deletion *metav1.Time
	node     string
	refs     []thing
}

type pvEntry struct {
	claim   thing
	secrets []thing
}

// NewIndex makes an empty index.
func NewIndex() *Index {
	return &Index{
		moved: make(chan struct{}),
		pods:  map[types.NamespacedName]podEntry{}, needs: map[thing]map[string]int{}, pvs: map[string]pvEntry{},
		via: map[thing]map[string]bool{}, named: map[thing]string{},
	}
}

// SetPod takes a Pod as it is now.
func (x *Index) SetPod(p *corev1.Pod) {
	e := podEntry{uid: p.UID, deletion: p.DeletionTimestamp, node: p.Spec.NodeName}
	if e.node != "" {
		e.refs = refsOf(p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	key := types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
	x.unset(key)
	x.pods[key] = e
	for _, t := range e.refs {
		if x.needs[t] == nil {
			x.needs[t] = map[string]int{}
		}
		x.needs[t][e.node]++
	}
	close(x.moved)
	x.moved = make(chan struct{})
}

// Moved returns a channel that is closed at the next change of a Pod.
func (x *Index) Moved() <-chan struct{} {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.moved
}

// DropPod forgets a Pod.
func (x *Index) DropPod(key types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unset(key)
}

func (x *Index) unset(key types.NamespacedName) {
	e, ok := x.pods[key]
	if !ok {
		return
	}
	delete(x.pods, key)
	for _, t := range e.refs {
		nodes := x.needs[t]
		if nodes[e.node]--; nodes[e.node] <= 0 {
			delete(nodes, e.node)
		}
		if len(nodes) == 0 {
			delete(x.needs, t)
		}
	}
}

// ReplacePods takes the whole list of Pods.
func (x *Index) ReplacePods(pods []*corev1.Pod) {
	keep := map[types.NamespacedName]bool{}
	for _, p := range pods {
		keep[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = true
		x.SetPod(p)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.pods {
		if !keep[key] {
			x.unset(key)
		}
	}
}

// Pod returns what the index knows of a Pod: its uid, deletion time and node, as a Pod with nothing else in it.
func (x *Index) Pod(namespace, name string) (*corev1.Pod, bool) {
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

// SetVolume takes a PersistentVolume as it is now.
func (x *Index) SetVolume(pv *corev1.PersistentVolume) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unsetVolume(pv.Name)
	if pv.Spec.ClaimRef == nil {
		return
	}
	e := pvEntry{claim: thing{"persistentvolumeclaims", pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name}, secrets: volumeSecrets(pv)}
	x.pvs[pv.Name] = e
	for _, s := range e.secrets {
		if x.via[s] == nil {
			x.via[s] = map[string]bool{}
		}
		x.via[s][pv.Name] = true
	}
}

// DropVolume forgets a PersistentVolume.
func (x *Index) DropVolume(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unsetVolume(name)
}

func (x *Index) unsetVolume(name string) {
	for _, s := range x.pvs[name].secrets {
		delete(x.via[s], name)
		if len(x.via[s]) == 0 {
			delete(x.via, s)
		}
	}
	delete(x.pvs, name)
}

// SetNamed takes a VolumeAttachment or ResourceSlice (kind is the resource name) and the node it names; an empty node forgets it.
func (x *Index) SetNamed(kind, name, node string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if node == "" {
		delete(x.named, thing{kind, "", name})
		return
	}
	x.named[thing{kind, "", name}] = node
}

// Needs tells whether a node may reach an object, kind being its resource name.
func (x *Index) Needs(node, kind, namespace, name string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	t := thing{kind, namespace, name}
	switch kind {
	case "persistentvolumes":
		e, ok := x.pvs[name]
		return ok && x.needs[e.claim][node] > 0
	case "volumeattachments", "resourceslices":
		return x.named[t] == node && node != ""
	case "secrets":
		for pv := range x.via[t] {
			if x.needs[x.pvs[pv].claim][node] > 0 {
				return true
			}
		}
	}
	return x.needs[t][node] > 0
}
