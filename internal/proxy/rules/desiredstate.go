package rules

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// DesiredState is the desired state of one table by owning Service. If two Services claim one
// address (anybody may name externalIPs), the older has it, and the other gets it when the older
// goes. To save memory an owner's state is kept packed, and an element with a single claimant, as
// nearly all are, as a hash and the owner's number. It is not safe for concurrent use.
type DesiredState struct {
	byOwner         map[string]ownerState
	ownerNumbers    []string // owner by number; empty: free
	free            []uint32 // numbers without owner
	soleClaims      map[elementHash]uint32
	contestedClaims map[Element][]claim // elements with two or more claims; the first has it
	seeds           [2]maphash.Seed
}

// Owner is a Service: NAMESPACE/NAME and its creation time in Unix seconds.
type Owner struct {
	Name    string
	Created int64
}

// ownerState is what an owner wants.
type ownerState struct {
	created int64
	number  uint32
	state   packedState
}

type claim struct {
	Owner
	verdict string
}

// elementHash stands for an element. Among a million elements the chance of a collision is 1 in
// 10²⁶.
type elementHash [2]uint64

// NewDesiredState returns an empty state.
func NewDesiredState() *DesiredState {
	return &DesiredState{byOwner: map[string]ownerState{}, soleClaims: map[elementHash]uint32{},
		contestedClaims: map[Element][]claim{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (b *DesiredState) hash(e Element) elementHash {
	return elementHash{maphash.Comparable(b.seeds[0], e), maphash.Comparable(b.seeds[1], e)}
}

// Set replaces what owner o wants; an empty state removes the owner. It returns the former and the
// new state of everything that it affects, for Delta.
func (b *DesiredState) Set(o Owner, wants State) (was, now State) {
	old := b.byOwner[o.Name].state.unpack()
	was, now = NewState(), NewState()
	was.Add(State{Chains: old.Chains, Affinity: old.Affinity})
	now.Add(State{Chains: wants.Chains, Affinity: wants.Affinity})
	b.stateOfOthers(o.Name, old, was, old, wants)
	for e := range old.Elements {
		b.removeClaim(e, o.Name)
	}
	b.store(o, wants)
	for e, verdict := range wants.Elements {
		b.addClaim(e, claim{o, verdict})
	}
	b.stateOfOthers(o.Name, wants, now, old, wants)
	return was, now
}

// store records what an owner wants; an owner of nothing loses its number.
func (b *DesiredState) store(o Owner, wants State) {
	p, known := b.byOwner[o.Name]
	if len(wants.Chains)+len(wants.Elements)+len(wants.Affinity) == 0 {
		if known {
			b.ownerNumbers[p.number], b.free = "", append(b.free, p.number)
			delete(b.byOwner, o.Name)
		}
		return
	}
	if n := len(b.free); !known && n > 0 {
		p.number, b.free = b.free[n-1], b.free[:n-1]
	} else if !known {
		p.number, b.ownerNumbers = uint32(len(b.ownerNumbers)), append(b.ownerNumbers, "")
	}
	b.ownerNumbers[p.number] = o.Name
	p.created, p.state = o.Created, packState(wants)
	b.byOwner[o.Name] = p
}

// stateOfOthers adds to in the elements of the given states as other owners hold them; own are
// those of self.
func (b *DesiredState) stateOfOthers(self string, own, in State, others ...State) {
	for _, s := range others {
		for e := range s.Elements {
			if all := b.contestedClaims[e]; all != nil {
				in.Elements[e] = all[0].verdict
			} else if n, ok := b.soleClaims[b.hash(e)]; !ok {
				continue
			} else if b.ownerNumbers[n] == self {
				in.Elements[e] = own.Elements[e]
			} else {
				in.Elements[e] = b.soleClaim(n, e).verdict
			}
		}
	}
}

// soleClaim returns the claim of the owner with number n on e.
func (b *DesiredState) soleClaim(n uint32, e Element) claim {
	p := b.byOwner[b.ownerNumbers[n]]
	return claim{Owner{b.ownerNumbers[n], p.created}, p.state.unpack().Elements[e]}
}

// removeClaim removes an owner's claim on an element. What the owner wants is still recorded.
func (b *DesiredState) removeClaim(e Element, owner string) {
	all, ok := b.contestedClaims[e]
	if !ok {
		delete(b.soleClaims, b.hash(e))
		return
	}
	all = slices.DeleteFunc(all, func(c claim) bool { return c.Name == owner })
	if len(all) > 1 {
		b.contestedClaims[e] = all
		return
	}
	delete(b.contestedClaims, e)
	b.soleClaims[b.hash(e)] = b.byOwner[all[0].Name].number
}

// addClaim adds a claim on an element. What its owner wants is recorded already.
func (b *DesiredState) addClaim(e Element, c claim) {
	all := b.contestedClaims[e]
	if all == nil {
		at := b.hash(e)
		n, claimed := b.soleClaims[at]
		if !claimed {
			b.soleClaims[at] = b.byOwner[c.Name].number
			return
		}
		all = []claim{b.soleClaim(n, e)}
		delete(b.soleClaims, at)
	}
	all = append(all, c)
	slices.SortFunc(all,
		func(x, y claim) int { return cmp.Or(cmp.Compare(x.Created, y.Created), cmp.Compare(x.Name, y.Name)) })
	b.contestedClaims[e] = all
}

// All returns the whole desired state.
func (b *DesiredState) All() State {
	out := NewState()
	for _, p := range b.byOwner {
		out.Add(p.state.unpack())
	}
	for e, all := range b.contestedClaims {
		out.Elements[e] = all[0].verdict
	}
	return out
}

// Change is the former and the new state of what changed.
type Change struct{ Was, Now State }

// NewChange returns an empty change.
func NewChange() Change { return Change{NewState(), NewState()} }

// Merge adds the change of another owner; each owner at most once.
func (c Change) Merge(was, now State) {
	for e := range was.Elements {
		_, begun := c.Was.Elements[e]
		_, created := c.Now.Elements[e]
		if !begun && !created {
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
