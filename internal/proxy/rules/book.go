package rules

import (
	"cmp"
	"slices"
)

// Book is the wanted state of one table by owner. Two Services may claim one address (externalIPs are anybody's to name): the older has it,
// and the other gets it when the older goes.
type Book struct {
	pieces map[string]State
	claims map[Element][]claim
}

// Owner is a Service: its name as NAMESPACE/NAME and when it was born, in seconds.
type Owner struct {
	Name string
	Born int64
}

type claim struct {
	Owner
	verdict string
}

// NewBook is an empty one.
func NewBook() *Book { return &Book{pieces: map[string]State{}, claims: map[Element][]claim{}} }

// Set replaces what an owner wants; an empty state ends it. It returns what was true and what is true now of all that it touches.
func (b *Book) Set(o Owner, piece State) (was, now State) {
	old := b.pieces[o.Name]
	was, now = NewState(), NewState()
	was.Add(State{Chains: old.Chains, Affinity: old.Affinity})
	now.Add(State{Chains: piece.Chains, Affinity: piece.Affinity})
	for e := range old.Elements {
		b.touch(e, was)
	}
	for e := range piece.Elements {
		b.touch(e, was)
	}
	for e := range old.Elements {
		b.drop(e, o.Name)
	}
	for e, verdict := range piece.Elements {
		b.take(e, claim{o, verdict})
	}
	for e := range old.Elements {
		b.touch(e, now)
	}
	for e := range piece.Elements {
		b.touch(e, now)
	}
	if len(piece.Chains)+len(piece.Elements)+len(piece.Affinity) == 0 {
		delete(b.pieces, o.Name)
	} else {
		b.pieces[o.Name] = piece
	}
	return was, now
}

// touch notes who has an element.
func (b *Book) touch(e Element, in State) {
	if c := b.claims[e]; len(c) > 0 {
		in.Elements[e] = c[0].verdict
	}
}

func (b *Book) drop(e Element, owner string) {
	left := slices.DeleteFunc(b.claims[e], func(c claim) bool { return c.Name == owner })
	if len(left) == 0 {
		delete(b.claims, e)
		return
	}
	b.claims[e] = left
}

func (b *Book) take(e Element, c claim) {
	all := append(b.claims[e], c)
	slices.SortFunc(all, func(x, y claim) int { return cmp.Or(cmp.Compare(x.Born, y.Born), cmp.Compare(x.Name, y.Name)) })
	b.claims[e] = all
}

// All is the whole wanted state.
func (b *Book) All() State {
	out := NewState()
	for _, p := range b.pieces {
		out.Add(State{Chains: p.Chains, Affinity: p.Affinity})
	}
	for e, c := range b.claims {
		out.Elements[e] = c[0].verdict
	}
	return out
}

// Owners lists who is in the book.
func (b *Book) Owners() []string { return sorted(b.pieces) }

// Change sums what several owners' changes come to.
type Change struct{ Was, Now State }

// NewChange is none.
func NewChange() Change { return Change{NewState(), NewState()} }

// Merge adds a change that came after those before; each owner once.
func (c Change) Merge(was, now State) {
	for e := range was.Elements {
		_, begun := c.Was.Elements[e]
		_, made := c.Now.Elements[e]
		if !begun && !made {
			c.Was.Elements[e] = was.Elements[e]
		}
		delete(c.Now.Elements, e)
	}
	for e, v := range now.Elements {
		c.Now.Elements[e] = v
	}
	c.Was.Add(State{Chains: was.Chains, Affinity: was.Affinity})
	c.Now.Add(State{Chains: now.Chains, Affinity: now.Affinity})
}
