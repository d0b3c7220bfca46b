package devicemanager

import (
	"maps"
	"slices"
)

// Set is a set of device ids.
type Set map[string]bool

// SetOf makes a set.
func SetOf(ids ...string) Set {
	out := make(Set, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

func (s Set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// Minus is what s has and no other has.
func (s Set) Minus(others ...Set) Set {
	out := Set{}
	for id := range s {
		if !slices.ContainsFunc(others, func(o Set) bool { return o[id] }) {
			out[id] = true
		}
	}
	return out
}

// union is what any of them has.
func (s Set) union(others ...Set) Set {
	out := maps.Clone(s)
	if out == nil {
		out = Set{}
	}
	for _, o := range others {
		maps.Copy(out, o)
	}
	return out
}

// within tells whether o has all of s.
func (s Set) within(o Set) bool {
	for id := range s {
		if !o[id] {
			return false
		}
	}
	return true
}
