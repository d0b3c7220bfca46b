package rules

import (
	"slices"
	"strings"
)

// Verb is what an operation does.
type Verb string

// The operations there are, in the order in which a transaction has them.
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
	Key     string // of an element
	Text    string // rule, or verdict of an element
	Timeout int32  // of an affinity set, seconds
}

// Unit is operations that only make sense together. Units may be cut into transactions anywhere:
// what one refers to is made by earlier ones.
type Unit []Op

// Delta leads from one state to another. Chains of equal name are equal.
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

// elements come after the chains: the kernel looks for loops at every rule once a map leads into
// its chain.
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

// chainsByLevel lists the chains of a that b lacks, each after those it may refer to.
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

// ChainUses is how often the kernel says that each chain of a state is in use: once by each of its
// rules, once by each verdict that leads to it.
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
			if strings.Contains(r, "-") { // a chain's name has one
				lead(r)
			}
		}
	}
	for _, verdict := range s.Elements {
		lead(verdict)
	}
	return out
}

// IsServiceObject tells whether a chain or set is made for a Service, as opposed to the frame.
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
