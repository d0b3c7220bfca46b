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

var scenarios = []scenario{
	{"memory", "a Pod eats memory until the node evicts it, and nobody else", memory},
	{"disk", "a disk fills: unused images go first, then the Pod that fills it", disk},
	{"pids", "a fork bomb meets its Pod's limit, then the node's", pids},
	{"cores", "exclusive cores and one NUMA node for all of a container", cores},
	{"swap", "limited swap, memory.min and memory.high, pressure as the kernel counts it", swap},
}

// choose returns the named scenarios, all of them when none is named.
func choose(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return scenarios, nil
	}
	var out []scenario
	for _, name := range names {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range scenarios {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
		out = append(out, scenarios[i])
	}
	return out, nil
}
