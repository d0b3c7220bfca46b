package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// scenario is one thing that the node lives through.
type scenario struct {
	name, shows string
	run         func(context.Context, *node) error
}

// scenarios run in this order; disk is last, for it takes the images that no Pod uses.
var scenarios = []scenario{
	{"memory", "a Pod eats memory until the node evicts it, and nobody else", memory},
	{"cores", "exclusive cores and one NUMA node for all of a container", cores},
	{"swap", "limited swap, memory.min and memory.high, pressure as the kernel counts it", swap},
	{"pids", "a fork bomb meets its Pod's limit, then the node's", pids},
	{"disk", "a disk fills: unused images go first, then the Pod that fills it", disk},
}

// upstreams runs only when it is named: upstream's kubelet takes the node over.
var upstreams = scenario{"upstream", "the same Pod that eats memory, with upstream's kubelet", upstream}

// choose returns the named scenarios in the table's order, all of them when none is named.
func choose(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	var known []string
	var out []scenario
	for _, s := range append(slices.Clone(scenarios), upstreams) {
		known = append(known, s.name)
		if slices.Contains(names, s.name) {
			out = append(out, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}
