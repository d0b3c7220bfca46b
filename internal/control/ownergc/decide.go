package ownergc

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

// waits tells whether the object stays until its dependents are gone (foreground deletion).
func (o *Object) waits() bool {
	return o.Deleting && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents)
}

// orphans tells whether the object stays until its dependents are set free.
func (o *Object) orphans() bool {
	return o.Deleting && slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents)
}

// Owner is one owner as it was found.
type Owner struct {
	Ref    metav1.OwnerReference
	Exists bool
	Waits  bool // it exists and waits for its dependents to go
}

// Verdict is what becomes of an object because of its owners.
type Verdict struct {
	Delete      bool
	Propagation metav1.DeletionPropagation
	Unref       []types.UID // owners to drop from its references instead
	Unblock     bool        // its reference must stop blocking its owner first, as the two block each other
}

// Judge decides by upstream's rules: an object with at least one solid owner stays and loses references to the others; one whose owners are all
// gone or waiting goes.
func Judge(o *Object, owners []Owner, dependents []*Object) Verdict {
	if o.Deleting || len(owners) == 0 {
		return Verdict{}
	}
	var solid, dangling, waiting []Owner
	for _, w := range owners {
		switch {
		case !w.Exists:
			dangling = append(dangling, w)
		case w.Waits:
			waiting = append(waiting, w)
		default:
			solid = append(solid, w)
		}
	}
	if len(solid) > 0 {
		var v Verdict
		for _, w := range append(dangling, waiting...) {
			v.Unref = append(v.Unref, w.Ref.UID)
		}
		return v
	}
	if len(waiting) > 0 && len(dependents) > 0 {
		v := Verdict{Delete: true, Propagation: metav1.DeletePropagationForeground}
		v.Unblock = slices.ContainsFunc(dependents, (*Object).waits)
		return v
	}
	return Verdict{Delete: true, Propagation: propagation(o)}
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

// Blocking are the dependents that an owner in foreground deletion has to wait for.
func Blocking(owner types.UID, dependents []*Object) []*Object {
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

// Put adds or replaces an object and returns whom to look at: itself, and its dependents when it begins to wait or to set them free.
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
	var look []types.UID
	if len(o.Owners) > 0 || o.waits() || o.orphans() {
		look = append(look, o.UID)
	}
	if o.waits() {
		look = append(look, g.dependentIDs(o.UID)...)
	}
	return look
}

// Drop removes an object and returns whom to look at: those it owned, and those that waited for it.
func (g *Graph) Drop(uid types.UID) []types.UID {
	look := g.dependentIDs(uid)
	if o := g.objects[uid]; o != nil {
		g.unlink(o)
		delete(g.objects, uid)
		for _, ref := range o.Owners {
			if w := g.objects[ref.UID]; w != nil && w.waits() {
				look = append(look, w.UID)
			}
		}
	}
	return look
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
