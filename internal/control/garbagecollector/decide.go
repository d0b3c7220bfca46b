package garbagecollector

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is what the collector knows of one object.
type Object struct {
	Resource   schema.GroupVersionResource
	Namespace  string
	Name       string
	UID        types.UID
	Owners     []metav1.OwnerReference
	Finalizers []string
	Deleting   bool
}

// waitsForDependents tells whether the object stays until its dependents are gone (foreground
// deletion).
func (o *Object) waitsForDependents() bool {
	return o.Deleting && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents)
}

// orphansDependents tells whether the object stays until its dependents are set free.
func (o *Object) orphansDependents() bool {
	return o.Deleting && slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents)
}

// Owner is one owner as it was found.
type Owner struct {
	Ref                metav1.OwnerReference
	Exists             bool
	WaitsForDependents bool // it exists and waits for its dependents to go
}

// Decision is what becomes of an object because of its owners.
type Decision struct {
	Delete          bool
	Propagation     metav1.DeletionPropagation
	RemoveOwners    []types.UID // owners to drop from its references instead
	UnblockDeletion bool        // its reference must stop blocking its owner first, as the two block each other
}

// Decide decides by upstream's rules: an object with at least one solid owner stays and loses
// references to the others; one whose owners are all gone or waiting goes.
func Decide(o *Object, owners []Owner, dependents []*Object) Decision {
	if o.Deleting || len(owners) == 0 {
		return Decision{}
	}
	var live, dangling, waiting []Owner
	for _, w := range owners {
		switch {
		case !w.Exists:
			dangling = append(dangling, w)
		case w.WaitsForDependents:
			waiting = append(waiting, w)
		default:
			live = append(live, w)
		}
	}
	if len(live) > 0 {
		var v Decision
		for _, w := range append(dangling, waiting...) {
			v.RemoveOwners = append(v.RemoveOwners, w.Ref.UID)
		}
		return v
	}
	if len(waiting) > 0 && len(dependents) > 0 {
		v := Decision{Delete: true, Propagation: metav1.DeletePropagationForeground}
		v.UnblockDeletion = slices.ContainsFunc(dependents, (*Object).waitsForDependents)
		return v
	}
	return Decision{Delete: true, Propagation: propagation(o)}
}

// propagation follows the finalizer that an object carries already.
func propagation(o *Object) metav1.DeletionPropagation {
	switch {
	case slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// BlockingDependents are the dependents that an owner in foreground deletion has to wait for.
func BlockingDependents(owner types.UID, dependents []*Object) []*Object {
	var out []*Object
	for _, d := range dependents {
		for _, ref := range d.Owners {
			if ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
				out = append(out, d)
			}
		}
	}
	return out
}

// Graph is who owns whom.
type Graph struct {
	objects    map[types.UID]*Object
	dependents map[types.UID]map[types.UID]bool
}

// NewGraph makes an empty graph.
func NewGraph() *Graph {
	return &Graph{objects: map[types.UID]*Object{}, dependents: map[types.UID]map[types.UID]bool{}}
}

// Put adds or replaces an object and returns whom to look at: itself, and its dependents when it
// begins to wait or to set them free.
func (g *Graph) Put(o *Object) []types.UID {
	if old := g.objects[o.UID]; old != nil {
		g.unlink(old)
	}
	g.objects[o.UID] = o
	for _, ref := range o.Owners {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]bool{}
		}
		g.dependents[ref.UID][o.UID] = true
	}
	var enqueue []types.UID
	if len(o.Owners) > 0 || o.waitsForDependents() || o.orphansDependents() {
		enqueue = append(enqueue, o.UID)
	}
	if o.waitsForDependents() {
		enqueue = append(enqueue, g.dependentIDs(o.UID)...)
	}
	return enqueue
}

// Drop removes an object and returns whom to look at: those it owned, and those that waited for it.
func (g *Graph) Drop(uid types.UID) []types.UID {
	enqueue := g.dependentIDs(uid)
	if o := g.objects[uid]; o != nil {
		g.unlink(o)
		delete(g.objects, uid)
		for _, ref := range o.Owners {
			if w := g.objects[ref.UID]; w != nil && w.waitsForDependents() {
				enqueue = append(enqueue, w.UID)
			}
		}
	}
	return enqueue
}

func (g *Graph) unlink(o *Object) {
	for _, ref := range o.Owners {
		delete(g.dependents[ref.UID], o.UID)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
		}
	}
}

func (g *Graph) dependentIDs(uid types.UID) []types.UID {
	out := make([]types.UID, 0, len(g.dependents[uid]))
	for d := range g.dependents[uid] {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

// Get returns an object and those that name it as owner.
func (g *Graph) Get(uid types.UID) (*Object, []*Object) {
	var deps []*Object
	for _, d := range g.dependentIDs(uid) {
		if o := g.objects[d]; o != nil {
			deps = append(deps, o)
		}
	}
	return g.objects[uid], deps
}
