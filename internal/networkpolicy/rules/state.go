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
	Elements map[string]bool // parts joined by " . "
}

// State is what the table has besides its frame.
type State struct {
	Sets   map[string]Set
	Chains map[string][]string
	// Pods are the elements of the frame's maps (Ingress4, …): address to verdict.
	Pods map[string]map[string]string
}

// Maps of the frame from the address of an isolated Pod to its chain. Local4 and Local6 hold pairs
// of a Pod's own address: a Pod may always reach itself.
const (
	Ingress4, Ingress6 = "ingress4", "ingress6"
	Egress4, Egress6   = "egress4", "egress6"
	Local4, Local6     = "self4", "self6"
)

// Op is one operation; fields that its verb does not use are empty.
type Op struct {
	Verb Verb
	Name string // of the set, map or chain
	Key  string
	Text string // the set's type, the rule, or the map's value
}

// Verb is the kind of an operation.
type Verb int

// The verbs, in the order in which Diff returns them, so that each refers only to what exists.
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

// Diff returns the operations that lead from was to now; none if they are equal.
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

// Base is the chain at the forward hook. Traffic from a node to its own Pods, such as probes, does
// not pass it.
const Base = "forward"

// Frame returns the chains of every table, each after those it refers to. Connections that were
// allowed when they began continue.
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

// name returns a short name: kind and a hash of parts.
func name(kind string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return kind + "-" + hex.EncodeToString(sum[:8])
}
