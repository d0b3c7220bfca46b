package garbagecollector

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func owner(uid string, exists, waits bool) Owner {
	return Owner{Ref: metav1.OwnerReference{UID: types.UID(uid)}, Exists: exists, WaitsForDependents: waits}
}

func TestDecide(t *testing.T) {
	foreground := []string{metav1.FinalizerDeleteDependents}
	child := []*Object{{UID: "child"}}
	for _, c := range []struct {
		name       string
		object     Object
		owners     []Owner
		dependents []*Object
		want       Decision
	}{
		{"nobody's", Object{}, nil, nil, Decision{}},
		{"owner is there", Object{}, []Owner{owner("a", true, false)}, nil, Decision{}},
		{"owner is gone", Object{}, []Owner{owner("a", false, false)}, nil,
			Decision{Delete: true, Propagation: metav1.DeletePropagationBackground}},
		{"one of two is gone", Object{}, []Owner{owner("a", true, false), owner("b", false, false)}, nil,
			Decision{RemoveOwners: []types.UID{"b"}}},
		{"one of two waits", Object{}, []Owner{owner("a", true, false), owner("b", true, true)}, nil,
			Decision{RemoveOwners: []types.UID{"b"}}},
		{"owner waits", Object{}, []Owner{owner("a", true, true)}, nil,
			Decision{Delete: true, Propagation: metav1.DeletePropagationBackground}},
		{"owner waits, and it owns others", Object{}, []Owner{owner("a", true, true)}, child,
			Decision{Delete: true, Propagation: metav1.DeletePropagationForeground}},
		{"two wait for each other", Object{}, []Owner{owner("a", true, true)},
			[]*Object{{UID: "a", Deleting: true, Finalizers: foreground}},
			Decision{Delete: true, Propagation: metav1.DeletePropagationForeground, UnblockDeletion: true}},
		{"owner is gone, and it owns others", Object{}, []Owner{owner("a", false, false)}, child,
			Decision{Delete: true, Propagation: metav1.DeletePropagationBackground}},
		{"one waits, one is gone, and it owns others", Object{}, []Owner{owner("a", true, true), owner("b", false,
			false)},
			child, Decision{Delete: true, Propagation: metav1.DeletePropagationForeground}},
		{"all but one are gone or wait", Object{}, []Owner{owner("a", true, true), owner("b", false, false),
			owner("c", true, false), owner("d", false, false)}, child, Decision{RemoveOwners: []types.UID{"b", "d",
			"a"}}},
		{"one that has the finalizer and stays", Object{}, []Owner{owner("a", true, true)},
			[]*Object{{UID: "a", Finalizers: foreground}},
			Decision{Delete: true, Propagation: metav1.DeletePropagationForeground}},
		{"one that ends without the finalizer", Object{}, []Owner{owner("a", true, true)},
			[]*Object{{UID: "a", Deleting: true, Finalizers: []string{metav1.FinalizerOrphanDependents}}},
			Decision{Delete: true, Propagation: metav1.DeletePropagationForeground}},
		{"keeps its foreground deletion", Object{Finalizers: foreground}, []Owner{owner("a", false, false)}, nil,
			Decision{Delete: true, Propagation: metav1.DeletePropagationForeground}},
		{"ending already", Object{Deleting: true}, []Owner{owner("a", false, false)}, nil, Decision{}},
		{"keeps its own propagation", Object{Finalizers: []string{metav1.FinalizerOrphanDependents}},
			[]Owner{owner("a", false, false)}, nil,
			Decision{Delete: true, Propagation: metav1.DeletePropagationOrphan}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Decide(&c.object, c.owners, c.dependents)); diff != "" {
				t.Fatalf("the two differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGraphReturnsObjectsToCheck(t *testing.T) {
	g := NewGraph()
	ref := func(uid string) []metav1.OwnerReference { return []metav1.OwnerReference{{UID: types.UID(uid)}} }
	if enqueue := g.Put(&Object{UID: "a"}); len(enqueue) != 0 {
		t.Fatalf("an object without owners is looked at: %v, want none", enqueue)
	}
	if diff := cmp.Diff([]types.UID{"b"}, g.Put(&Object{UID: "b", Owners: ref("a")})); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]types.UID{"a", "b"},
		g.Put(&Object{UID: "a", Deleting: true, Finalizers: []string{metav1.FinalizerDeleteDependents}})); diff != "" {
		t.Fatal("foreground deletion must look at its dependents: " + diff)
	}
	if diff := cmp.Diff([]types.UID{"a"}, g.Drop("b")); diff != "" {
		t.Fatal("the waiting owner must be looked at when a dependent goes: " + diff)
	}
	g.Put(&Object{UID: "c", Owners: ref("a")})
	if diff := cmp.Diff([]types.UID{"c"}, g.Drop("a")); diff != "" {
		t.Fatalf("the two differ (-want +got):\n%s", diff)
	}
	g.Drop("c")
	if len(g.objects) != 0 || len(g.dependents) != 0 {
		t.Fatalf("after all have gone there are %v and dependents %v, want none, none", g.objects, g.dependents)
	}
	ids := func(all ...types.UID) []types.UID { return all }
	for i, step := range []struct {
		got, want []types.UID
	}{
		{g.Put(&Object{UID: "o"}), nil},
		{g.Put(&Object{UID: "z", Owners: ref("o")}), ids("z")},
		{g.Put(&Object{UID: "y", Owners: ref("o")}), ids("y")},
		{g.Put(&Object{UID: "x", Owners: ref("o")}), ids("x")},
		{g.Put(&Object{UID: "o", Deleting: true}), nil},
		{g.Put(&Object{UID: "o", Finalizers: []string{metav1.FinalizerDeleteDependents}}), nil},
		{g.Put(&Object{UID: "o", Deleting: true, Finalizers: []string{metav1.FinalizerOrphanDependents}}), ids("o")},
		{g.Drop("z"), ids()}, // an owner that orphans does not wait for it
		{g.Put(&Object{UID: "z", Owners: ref("o")}), ids("z")},
		{g.Put(&Object{UID: "o", Deleting: true, Finalizers: []string{metav1.FinalizerDeleteDependents}}),
			ids("o", "x", "y", "z")},
		{g.Drop("y"), ids("o")},
		{g.Drop("unknown"), ids()},
		{g.Drop("o"), ids("x", "z")},
		{g.Drop("x"), ids()},
	} {
		if len(step.got) != len(step.want) || len(step.want) > 0 && !slices.Equal(step.got, step.want) {
			t.Errorf("step %d: got %v, want %v", i, step.got, step.want)
		}
	}
	if o, deps := g.Get("o"); o != nil || len(deps) != 1 || deps[0].UID != "z" {
		t.Errorf("of one that is gone: got %v and %v, want z alone", o, deps)
	}
}

// An owner that waits waits for those that say so of their reference to it, and for no others.
func TestBlockingDependents(t *testing.T) {
	ref := func(uid string, blocks *bool) metav1.OwnerReference {
		return metav1.OwnerReference{UID: types.UID(uid), BlockOwnerDeletion: blocks}
	}
	all := []*Object{
		{UID: "blocks", Owners: []metav1.OwnerReference{ref("o", new(true))}},
		{UID: "does not", Owners: []metav1.OwnerReference{ref("o", new(false))}},
		{UID: "does not say", Owners: []metav1.OwnerReference{ref("o", nil)}},
		{UID: "blocks another", Owners: []metav1.OwnerReference{ref("p", new(true)), ref("o", nil)}},
		{UID: "blocks both", Owners: []metav1.OwnerReference{ref("p", new(true)), ref("o", new(true))}},
		{UID: "of nobody"},
	}
	var got []types.UID
	for _, o := range BlockingDependents("o", all) {
		got = append(got, o.UID)
	}
	if diff := cmp.Diff([]types.UID{"blocks", "blocks both"}, got); diff != "" {
		t.Errorf("the two differ (-want +got):\n%s", diff)
	}
	if got := BlockingDependents("nobody", all); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
}

// However objects are added, change owners and are deleted, the graph has exactly the living
// dependents of each owner.
func TestGraphFollowsEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, truth := NewGraph(), map[types.UID]types.UID{}
		ids := []types.UID{"a", "b", "c", "d"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom(ids).Draw(t, "id")
			if rapid.Bool().Draw(t, "drop") {
				g.Drop(id)
				delete(truth, id)
				continue
			}
			by := rapid.SampledFrom(ids).Draw(t, "owner")
			g.Put(&Object{UID: id, Owners: []metav1.OwnerReference{{UID: by}}})
			truth[id] = by
		}
		for _, o := range ids {
			want := 0
			for _, by := range truth {
				if by == o {
					want++
				}
			}
			if _, deps := g.Get(o); len(deps) != want {
				t.Fatalf("%s has %d dependents, the graph says %d", o, want, len(deps))
			}
		}
	})
}
