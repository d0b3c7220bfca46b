package garbagecollector

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object is one object in the graph.
type Object struct {
	Resource   schema.GroupVersionResource
	Namespace  string
	Name       string
	UID        types.UID
	Owners     []metav1.OwnerReference
	Finalizers []string
	Deleting   bool
}

// waitsForDependents reports whether the object waits for its dependents' deletion (foreground
// deletion).
func (o *Object) waitsForDependents() bool {
	return o.Deleting && slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents)
}

// orphansDependents reports whether the object waits until its dependents are orphaned.
func (o *Object) orphansDependents() bool {
	return o.Deleting && slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents)
}

// Owner is the state of one owner.
type Owner struct {
	Ref                metav1.OwnerReference
	Exists             bool
	WaitsForDependents bool      // it exists and waits for its dependents' deletion
	Other              types.UID // of the object of its name that is there instead; empty: none
}

// Reason says which owners an object that is deleted has lost.
func Reason(owners []Owner) string {
	var out []string
	for _, w := range owners {
		name := fmt.Sprintf("%s %s of uid %s", w.Ref.Kind, w.Ref.Name, w.Ref.UID)
		switch {
		case w.WaitsForDependents:
			out = append(out, name+" is being deleted and waits for it")
		case w.Other != "":
			out = append(out, fmt.Sprintf("%s is not there: the %s of that name has the uid %s", name, w.Ref.Kind,
				w.Other))
		case !w.Exists:
			out = append(out, name+" is not there")
		}
	}
	return "by its metadata.ownerReferences it is owned, and its owner " + strings.Join(out, ", ")
}

// Decision is what to do with an object because of its owners.
type Decision struct {
	Delete          bool
	Propagation     metav1.DeletionPropagation
	RemoveOwners    []types.UID // remove these owner references instead
	UnblockDeletion bool        // first set blockOwnerDeletion of its reference to false, as the two block each other
}

// Decide decides by upstream's rules: an object with at least one solid owner stays and loses
// references to others; one whose owners are all gone or waiting is deleted.
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

// propagation returns the policy of the finalizer that an object has already.
func propagation(o *Object) metav1.DeletionPropagation {
	switch {
	case slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(o.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}

// BlockingDependents returns the dependents that an owner in foreground deletion waits for.
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

// Graph is the owners and dependents of all objects. It has no lock; the controller has one.
type Graph struct {
	objects    map[types.UID]*Object
	dependents map[types.UID]map[types.UID]bool
}

// NewGraph makes an empty graph.
func NewGraph() *Graph {
	return &Graph{objects: map[types.UID]*Object{}, dependents: map[types.UID]map[types.UID]bool{}}
}

// Put adds or replaces an object and returns the objects to process: itself, and its dependents if
// it starts to wait for or to orphan them.
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

// Drop removes an object and returns the objects to process: its dependents, and owners that waited
// for it.
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

// Get returns an object and its dependents.
func (g *Graph) Get(uid types.UID) (*Object, []*Object) {
	var deps []*Object
	for _, d := range g.dependentIDs(uid) {
		if o := g.objects[d]; o != nil {
			deps = append(deps, o)
		}
	}
	return g.objects[uid], deps
}
