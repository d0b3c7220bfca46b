package cpuassignment

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/machine"
)

// Options are the options of the static policy that bear on the choice.
type Options struct {
	FullPhysicalCPUs         bool // full-pcpus-only
	DistributeAcrossNUMA     bool // distribute-cpus-across-numa
	AlignBySocket            bool // align-by-socket
	DistributeAcrossCores    bool // distribute-cpus-across-cores
	PreferAlignByUncoreCache bool // prefer-align-cpus-by-uncorecache
}

// TakeByTopology chooses n of the available CPUs. The error is upstream's.
func TakeByTopology(t machine.Topology, available cpuset.CPUSet, n int, o Options) (cpuset.CPUSet, error) {
	if !o.DistributeAcrossNUMA {
		return packed(t, available, n, o)
	}
	group := 1
	if o.FullPhysicalCPUs {
		group = t.CPUsPerCore()
	}
	o.PreferAlignByUncoreCache = false
	if group == 0 || n%group != 0 {
		return packed(t, available, n, o)
	}
	return distributed(newAccumulator(t, available, n, o), available, n, group)
}

// packed fills what has fewest free CPUs first, largest parts of the machine first.
func packed(t machine.Topology, available cpuset.CPUSet, n int, o Options) (cpuset.CPUSet, error) {
	a := newAccumulator(t, available, n, o)
	switch {
	case a.satisfied():
		return a.result(), nil
	case a.need > len(a.free):
		return cpuset.New(), notEnough(n, available)
	}
	steps := []func(){func() { a.takeWhole(a.order(byNode), byNode) },
		func() { a.takeWhole(a.order(bySocket), bySocket) }}
	if !a.nodesAboveSockets() {
		slices.Reverse(steps)
	}
	if o.PreferAlignByUncoreCache {
		steps = append(steps, a.takeUncoreCaches)
	}
	if !o.DistributeAcrossCores {
		steps = append(steps, func() { a.takeWhole(a.order(byCore), byCore) })
	}
	for _, step := range append(steps, a.takeSingles) {
		step()
		if a.satisfied() {
			return a.result(), nil
		}
	}
	return cpuset.New(), errors.New("failed to allocate cpus")
}

func notEnough(n int, available cpuset.CPUSet) error {
	return fmt.Errorf("not enough cpus available to satisfy request: requested=%d, available=%d", n, available.Size())
}

// level is a kind of part that a machine has.
type level int

const (
	wholeMachine level = iota
	byNode
	bySocket
	byCore
	byUncore
)

// of is the part of the level that a CPU belongs to.
func (l level) of(c machine.CPU) int {
	switch l {
	case byNode:
		return c.NUMANode
	case bySocket:
		return c.Socket
	case byCore:
		return c.Core
	case byUncore:
		return c.UncoreCache
	}
	return 0
}

// accumulator gathers CPUs until none is needed any more.
type accumulator struct {
	t     machine.Topology
	o     Options
	free  map[int]machine.CPU
	taken []int
	need  int
}

func newAccumulator(t machine.Topology, available cpuset.CPUSet, n int, o Options) *accumulator {
	a := &accumulator{t: t, o: o, free: map[int]machine.CPU{}, need: n}
	for _, id := range available.UnsortedList() {
		if c, ok := t.CPUs[id]; ok {
			a.free[id] = c
		}
	}
	return a
}

func (a *accumulator) satisfied() bool       { return a.need < 1 }
func (a *accumulator) result() cpuset.CPUSet { return cpuset.New(a.taken...) }

// nodesAboveSockets tells whether a NUMA node is the larger part of this machine.
func (a *accumulator) nodesAboveSockets() bool { return a.t.NumSockets >= a.t.NumNodes }

func (a *accumulator) take(ids []int) {
	for _, id := range ids {
		delete(a.free, id)
	}
	a.taken = append(a.taken, ids...)
	a.need -= len(ids)
}

// members are the CPUs of one part, ascending.
func members(cpus map[int]machine.CPU, l level, id int) []int {
	var out []int
	for cpu, c := range cpus {
		if l.of(c) == id {
			out = append(out, cpu)
		}
	}
	slices.Sort(out)
	return out
}

// parts are the parts of a level that have free CPUs within one part of an upper level, those with
// fewest free CPUs first, then by number.
func (a *accumulator) parts(l, upper level, in int) []int {
	size := map[int]int{}
	within := map[int]bool{}
	for _, c := range a.free {
		id := l.of(c)
		size[id]++
		within[id] = within[id] || upper.of(c) == in
	}
	maps.DeleteFunc(size, func(id, _ int) bool { return !within[id] })
	return slices.SortedFunc(maps.Keys(size), func(x, y int) int {
		return cmp.Or(cmp.Compare(size[x], size[y]), cmp.Compare(x, y))
	})
}

// chain are the levels above cores, the largest first.
func (a *accumulator) chain() []level {
	if a.nodesAboveSockets() {
		return []level{byNode, bySocket}
	}
	return []level{bySocket, byNode}
}

// order are the parts of a level with free CPUs, in the order in which they are to be filled: upper
// levels count before lower ones.
func (a *accumulator) order(l level) []int {
	chain := a.chain()
	switch l {
	case byUncore:
		return a.below(byNode, l)
	case chain[0]:
		return a.parts(l, wholeMachine, 0)
	case chain[1]:
		return a.below(chain[0], l)
	}
	return a.below(chain[1], l)
}

// below are the parts of a level in each part of the upper level in turn.
func (a *accumulator) below(upper, l level) []int {
	var out []int
	seen := map[int]bool{}
	for _, u := range a.order(upper) {
		for _, id := range a.parts(l, upper, u) {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out
}

// isFree tells whether all CPUs of a part are free.
func (a *accumulator) isFree(l level, id int) bool {
	return len(members(a.free, l, id)) == len(members(a.t.CPUs, l, id))
}

// takeWhole takes the parts that are wholly free, in the order given, while they are not too large.
func (a *accumulator) takeWhole(order []int, l level) {
	order = slices.DeleteFunc(order, func(id int) bool { return !a.isFree(l, id) })
	for _, id := range order {
		if all := members(a.t.CPUs, l, id); a.need >= len(all) {
			a.take(all)
		}
	}
}

// takeUncoreCaches takes whole caches while more is needed than one has, then what is left from one
// cache that can give it.
func (a *accumulator) takeUncoreCaches() {
	for _, id := range a.order(byUncore) {
		if a.need >= a.t.CPUsPerUncore() {
			a.takeWhole(a.order(byUncore), byUncore)
		}
		if a.satisfied() {
			return
		}
		if list := a.partOfCache(id); len(list) == a.need {
			a.take(list)
			return
		}
	}
}

// partOfCache are the CPUs of as many cores of a cache as are needed; fewer or more where it does
// not come out even.
func (a *accumulator) partOfCache(id int) []int {
	perCore := a.t.CPUsPerCore()
	cores := map[int]bool{}
	for _, cpu := range members(a.free, byUncore, id) {
		cores[a.free[cpu].Core] = true
	}
	chosen := slices.Sorted(maps.Keys(cores))
	chosen = chosen[:min(len(chosen), (a.need+perCore-1)/perCore)]
	var out []int
	for cpu, c := range a.free {
		if slices.Contains(chosen, c.Core) {
			out = append(out, cpu)
		}
	}
	slices.Sort(out)
	if a.need%2 != 0 && perCore > 1 && len(out) > a.need {
		out = out[:len(out)-1]
	}
	return out
}

// takeSingles takes CPU by CPU: those of cores in use before those of free ones, or with
// distribute-cpus-across-cores in the order of their numbers, which are first threads before
// second.
func (a *accumulator) takeSingles() {
	l := byCore
	if a.o.DistributeAcrossCores {
		l = bySocket
	}
	var list []int
	for _, id := range a.order(l) {
		list = append(list, members(a.free, l, id)...)
	}
	a.take(list[:min(len(list), a.need)])
}
