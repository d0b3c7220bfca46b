package rules

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// Book is the wanted state of one table by owner. Two Services may claim one address (externalIPs are anybody's to name): the older has it,
// and the other gets it when the older goes. It is made to be small: what an owner wants is kept as one text, and an element that one owner alone
// claims, as nearly all are, as a sum and a number.
type Book struct {
	pieces    map[string]piece
	numbers   []string // the owner with each number; empty: nobody
	free      []uint32 // numbers of nobody
	sole      map[sum]uint32
	contested map[Element][]claim // of two claimants or more, the first has it
	seeds     [2]maphash.Seed
}

// Owner is a Service: its name as NAMESPACE/NAME and when it was born, in seconds.
type Owner struct {
	Name string
	Born int64
}

// piece is what an owner wants.
type piece struct {
	born   int64
	number uint32
	text   packed
}

type claim struct {
	Owner
	verdict string
}

// sum stands for an element: of a million, two have the same with a chance of 1 to 10²⁶.
type sum [2]uint64

// NewBook is an empty one.
func NewBook() *Book {
	return &Book{pieces: map[string]piece{}, sole: map[sum]uint32{}, contested: map[Element][]claim{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (b *Book) sum(e Element) sum {
	return sum{maphash.Comparable(b.seeds[0], e), maphash.Comparable(b.seeds[1], e)}
}

// Set replaces what an owner wants; an empty state ends it. It returns what was true and what is true now of all that it touches.
func (b *Book) Set(o Owner, wants State) (was, now State) {
	old := b.pieces[o.Name].text.state()
	was, now = NewState(), NewState()
	was.Add(State{Chains: old.Chains, Affinity: old.Affinity})
	now.Add(State{Chains: wants.Chains, Affinity: wants.Affinity})
	b.touch(o.Name, old, was, old, wants)
	for e := range old.Elements {
		b.drop(e, o.Name)
	}
	b.keep(o, wants)
	for e, verdict := range wants.Elements {
		b.take(e, claim{o, verdict})
	}
	b.touch(o.Name, wants, now, old, wants)
	return was, now
}

// keep notes what an owner wants; who wants nothing has no number any more.
func (b *Book) keep(o Owner, wants State) {
	p, known := b.pieces[o.Name]
	if len(wants.Chains)+len(wants.Elements)+len(wants.Affinity) == 0 {
		if known {
			b.numbers[p.number], b.free = "", append(b.free, p.number)
			delete(b.pieces, o.Name)
		}
		return
	}
	if n := len(b.free); !known && n > 0 {
		p.number, b.free = b.free[n-1], b.free[:n-1]
	} else if !known {
		p.number, b.numbers = uint32(len(b.numbers)), append(b.numbers, "")
	}
	b.numbers[p.number] = o.Name
	p.born, p.text = o.Born, pack(wants)
	b.pieces[o.Name] = p
}

// touch notes in a state what is true of the elements of others; what self has is in own.
func (b *Book) touch(self string, own, in State, others ...State) {
	for _, s := range others {
		for e := range s.Elements {
			if all := b.contested[e]; all != nil {
				in.Elements[e] = all[0].verdict
			} else if n, ok := b.sole[b.sum(e)]; !ok {
				continue
			} else if b.numbers[n] == self {
				in.Elements[e] = own.Elements[e]
			} else {
				in.Elements[e] = b.soleClaim(n, e).verdict
			}
		}
	}
}

// soleClaim is that of the owner with a number.
func (b *Book) soleClaim(n uint32, e Element) claim {
	p := b.pieces[b.numbers[n]]
	return claim{Owner{b.numbers[n], p.born}, p.text.state().Elements[e]}
}

// drop takes back an owner's claim on an element. What the owner wants is still kept.
func (b *Book) drop(e Element, owner string) {
	all, ok := b.contested[e]
	if !ok {
		delete(b.sole, b.sum(e))
		return
	}
	all = slices.DeleteFunc(all, func(c claim) bool { return c.Name == owner })
	if len(all) > 1 {
		b.contested[e] = all
		return
	}
	delete(b.contested, e)
	b.sole[b.sum(e)] = b.pieces[all[0].Name].number
}

// take adds a claim to an element. What its owner wants is kept already.
func (b *Book) take(e Element, c claim) {
	all := b.contested[e]
	if all == nil {
		at := b.sum(e)
		n, claimed := b.sole[at]
		if !claimed {
			b.sole[at] = b.pieces[c.Name].number
			return
		}
		all = []claim{b.soleClaim(n, e)}
		delete(b.sole, at)
	}
	all = append(all, c)
	slices.SortFunc(all, func(x, y claim) int { return cmp.Or(cmp.Compare(x.Born, y.Born), cmp.Compare(x.Name, y.Name)) })
	b.contested[e] = all
}

// All is the whole wanted state.
func (b *Book) All() State {
	out := NewState()
	for _, p := range b.pieces {
		out.Add(p.text.state())
	}
	for e, all := range b.contested {
		out.Elements[e] = all[0].verdict
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
