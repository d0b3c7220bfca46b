package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Set is a named set of the table.
type Set struct {
	Type     string
	Elements map[string]bool // fields with " . " between
}

// State is what the table has beside its frame.
type State struct {
	Sets   map[string]Set
	Chains map[string][]string
	// Pods leads addresses to chains, by map (Ingress4, …).
	Pods map[string]map[string]string
}

// Maps of the frame: from the address of an isolated Pod to its chain. Self has pairs of a Pod's
// own address: nobody is kept from itself.
const (
	Ingress4, Ingress6 = "ingress4", "ingress6"
	Egress4, Egress6   = "egress4", "egress6"
	Local4, Local6     = "self4", "self6"
)

// Op is one step; the empty fields of its verb have no meaning.
type Op struct {
	Verb Verb
	Name string // of the set, map or chain
	Key  string
	Text string // a set's type, a rule, a map's value
}

// Verb says what an Op does.
type Verb int

// Verbs in the order in which a Change has them, so that each refers only to what is there.
const (
	AddSet Verb = iota
	AddElement
	DeleteElement
	AddChain
	AddRule
	DeletePod
	AddPod
	DeleteChain
	DeleteSet
)

// Diff are the steps from one state to the other; none when they are equal.
func Diff(was, now State) []Op {
	var ops []Op
	for _, name := range slices.Sorted(maps.Keys(now.Sets)) {
		old, there := was.Sets[name]
		if !there {
			ops = append(ops, Op{Verb: AddSet, Name: name, Text: now.Sets[name].Type})
		}
		for _, e := range slices.Sorted(maps.Keys(now.Sets[name].Elements)) {
			if !old.Elements[e] {
				ops = append(ops, Op{Verb: AddElement, Name: name, Key: e})
			}
		}
		for _, e := range slices.Sorted(maps.Keys(old.Elements)) {
			if !now.Sets[name].Elements[e] {
				ops = append(ops, Op{Verb: DeleteElement, Name: name, Key: e})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Chains)) {
		if _, there := was.Chains[name]; there {
			continue
		}
		ops = append(ops, Op{Verb: AddChain, Name: name})
		for _, r := range now.Chains[name] {
			ops = append(ops, Op{Verb: AddRule, Name: name, Text: r})
		}
	}
	ops = append(ops, pods(was, now)...)
	for _, name := range slices.Sorted(maps.Keys(was.Chains)) {
		if _, stays := now.Chains[name]; !stays {
			ops = append(ops, Op{Verb: DeleteChain, Name: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Sets)) {
		if _, stays := now.Sets[name]; !stays {
			ops = append(ops, Op{Verb: DeleteSet, Name: name})
		}
	}
	return ops
}

func pods(was, now State) []Op {
	var gone, come []Op
	for _, m := range []string{Ingress4, Ingress6, Egress4, Egress6} {
		for _, ip := range slices.Sorted(maps.Keys(was.Pods[m])) {
			if now.Pods[m][ip] != was.Pods[m][ip] {
				gone = append(gone, Op{Verb: DeletePod, Name: m, Key: ip, Text: was.Pods[m][ip]})
			}
		}
		for _, ip := range slices.Sorted(maps.Keys(now.Pods[m])) {
			if now.Pods[m][ip] != was.Pods[m][ip] {
				come = append(come, Op{Verb: AddPod, Name: m, Key: ip, Text: now.Pods[m][ip]})
			}
		}
	}
	return append(gone, come...)
}

// Chain is a chain of the frame with its rules.
type Chain struct {
	Name  string
	Rules []string
}

// Base is the chain that is hooked into forwarding: what a node says to its own Pods (probes) does
// not pass it.
const Base = "forward"

// Frame are the chains that every table has, each after those it refers to. Conversations that were
// allowed when they began go on.
func Frame() []Chain {
	return []Chain{
		{"egress", []string{"ip saddr vmap @" + Egress4, "ip6 saddr vmap @" + Egress6}},
		{"ingress", []string{"ip daddr vmap @" + Ingress4, "ip6 daddr vmap @" + Ingress6}},
		{Base, []string{
			"ct state established,related accept",
			"ip saddr . ip daddr @" + Local4 + " accept", "ip6 saddr . ip6 daddr @" + Local6 + " accept",
			"icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, nd-router-advert } accept",
			"jump egress", "jump ingress",
		}},
	}
}

// name is short and tells what it is of.
func name(kind string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return kind + "-" + hex.EncodeToString(sum[:8])
}
