package rules

import (
	"slices"
	"strings"
)

// Verb is the kind of an operation.
type Verb string

// The verbs, in the order in which a transaction has them.
const (
	AddAffinity    Verb = "add affinity"
	AddChain       Verb = "add chain"
	AddRule        Verb = "add rule"
	DeleteElement  Verb = "delete element"
	AddElement     Verb = "add element"
	DeleteChain    Verb = "delete chain"
	DeleteAffinity Verb = "delete affinity"
)

// Op is one operation on a table.
type Op struct {
	Verb    Verb
	Name    string // chain or set
	Key     string // of the element
	Text    string // the rule, or the element's verdict
	Timeout int32  // of the affinity set, in seconds
}

// Unit is operations that must be in one transaction. Transactions may be split between any two
// units: what a unit refers to is made by earlier ones.
type Unit []Op

// Delta returns the operations that lead from have to want. Chains of equal names are equal.
func Delta(have, want State) []Unit {
	var out []Unit
	for _, name := range sorted(want.Affinity) {
		if _, there := have.Affinity[name]; !there {
			out = append(out, Unit{{Verb: AddAffinity, Name: name, Timeout: want.Affinity[name]}})
		}
	}
	for _, name := range chainsByLevel(want.Chains, have.Chains) {
		u := Unit{{Verb: AddChain, Name: name}}
		for _, rule := range want.Chains[name] {
			u = append(u, Op{Verb: AddRule, Name: name, Text: rule})
		}
		out = append(out, u)
	}
	out = append(out, elements(have, want)...)
	removed := chainsByLevel(have.Chains, want.Chains)
	slices.Reverse(removed)
	for _, name := range removed {
		out = append(out, Unit{{Verb: DeleteChain, Name: name}})
	}
	for _, name := range sorted(have.Affinity) {
		if _, stays := want.Affinity[name]; !stays {
			out = append(out, Unit{{Verb: DeleteAffinity, Name: name}})
		}
	}
	return out
}

// elements returns the operations on elements. Additions come after those of chains: once a map
// leads into a chain, the kernel looks for loops at each rule added to it.
func elements(have, want State) []Unit {
	var out []Unit
	for _, e := range ordered(want.Elements) {
		was, there := have.Elements[e]
		now := want.Elements[e]
		add := Op{Verb: AddElement, Name: e.Set, Key: e.Key, Text: now}
		switch {
		case !there:
			out = append(out, Unit{add})
		case was != now:
			out = append(out, Unit{{Verb: DeleteElement, Name: e.Set, Key: e.Key, Text: was}, add})
		}
	}
	for _, e := range ordered(have.Elements) {
		if _, stays := want.Elements[e]; !stays {
			out = append(out, Unit{{Verb: DeleteElement, Name: e.Set, Key: e.Key, Text: have.Elements[e]}})
		}
	}
	return out
}

func ordered(m map[Element]string) []Element {
	out := make([]Element, 0, len(m))
	for e := range m {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Element) int {
		if c := strings.Compare(a.Set, b.Set); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	return out
}

// chainsByLevel returns the chains of a that b lacks, each after the chains it refers to.
func chainsByLevel(a, b map[string][]string) []string {
	var out []string
	for name := range a {
		if _, also := b[name]; !also {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(x, y string) int {
		if c := chainLevel(x) - chainLevel(y); c != 0 {
			return c
		}
		return strings.Compare(x, y)
	})
	return out
}

func chainLevel(chain string) int {
	switch kind, _, _ := strings.Cut(chain, "-"); kind {
	case "endpoint":
		return 0
	case "service", "local", "firewall":
		return 1
	}
	return 2
}

// ChainUses returns the use count that the kernel reports for each chain of s: one for each of its
// rules and for each verdict that leads to it.
func ChainUses(s State) map[string]int {
	out := make(map[string]int, len(s.Chains))
	lead := func(verdicts string) {
		tokens := strings.Fields(verdicts)
		for i := 1; i < len(tokens); i++ {
			if tokens[i-1] == "goto" || tokens[i-1] == "jump" {
				if name := strings.TrimSuffix(tokens[i], ","); IsServiceObject(name) {
					out[name]++
				}
			}
		}
	}
	for name, rules := range s.Chains {
		out[name] += len(rules)
		for _, r := range rules {
			if strings.Contains(r, "-") { // only chain names have a dash
				lead(r)
			}
		}
	}
	for _, verdict := range s.Elements {
		lead(verdict)
	}
	return out
}

// IsServiceObject reports whether a chain or set belongs to a Service, as opposed to the frame.
func IsServiceObject(name string) bool {
	if strings.Count(name, "/") < 3 {
		return false
	}
	switch kind, _, _ := strings.Cut(name, "-"); kind {
	case "endpoint", "service", "local", "firewall", "external", "affinity":
		return true
	}
	return false
}
