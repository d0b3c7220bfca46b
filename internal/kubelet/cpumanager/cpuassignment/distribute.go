package cpuassignment

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"k8s.io/utils/cpuset"
)

// share is how CPUs are divided among NUMA nodes: each of nodes gives even, then those of rest give
// a group each in turn until all are given.
type share struct {
	nodes, rest []int
	balance     float64 // deviation of what is left free on the nodes; the lower the better
	oneSocket   bool
}

// distributed takes equal parts from as few NUMA nodes as can give them (KEP-2902), in groups that
// stay together. Of several sets of nodes it takes the one that leaves the nodes most alike, with
// AlignBySocket one in a single socket before others.
func distributed(a *accumulator, available cpuset.CPUSet, n, group int) (cpuset.CPUSet, error) {
	switch {
	case a.satisfied():
		return a.result(), nil
	case a.need > len(a.free):
		return cpuset.New(), notEnough(n, available)
	}
	nodes := a.order(byNode)
	least, most := a.nodesNeeded(group, len(nodes))
	for k := least; k <= most; k++ {
		best := a.bestShare(nodes, k, group)
		if best == nil {
			continue
		}
		return a.divide(*best, n, group)
	}
	return packed(a.t, available, n, a.o)
}

// nodesNeeded is how many nodes can be needed at least and at most.
func (a *accumulator) nodesNeeded(group, nodesWithFree int) (least, most int) {
	groups := (len(a.t.CPUs)-1)/group + 1
	perNode := (groups-1)/a.t.NumNodes + 1
	wanted := (a.need-1)/group + 1
	return (wanted-1)/perNode + 1, min(wanted, nodesWithFree)
}

// bestShare is the best way to use k of the nodes; nil when there is none.
func (a *accumulator) bestShare(nodes []int, k, group int) *share {
	free := a.freeByNode()
	var best *share
	for combo := range combinations(nodes, k) {
		if best != nil && best.balance == 0 && (!a.o.AlignBySocket || best.oneSocket) {
			break
		}
		s, ok := a.shareOf(combo, free, group)
		switch {
		case !ok:
		case best == nil, a.o.AlignBySocket && s.oneSocket && !best.oneSocket,
			s.oneSocket == best.oneSocket && s.balance < best.balance:
			best = &s
		}
	}
	return best
}

func (a *accumulator) freeByNode() map[int]int {
	out := map[int]int{}
	for _, c := range a.free {
		out[c.NUMANode]++
	}
	return out
}

// evenPart is what each of the nodes gives at first.
func (a *accumulator) evenPart(nodes []int, free map[int]int, group int, fit bool) int {
	even := a.need / len(nodes) / group * group
	for _, node := range nodes {
		if fit {
			even = min(even, free[node]/group*group)
		}
	}
	return even
}

// shareOf checks a set of nodes; false: it cannot give what is needed.
func (a *accumulator) shareOf(nodes []int, free map[int]int, group int) (share, bool) {
	total, groups := 0, 0
	for _, node := range nodes {
		total += free[node]
		groups += free[node] / group
	}
	if total < a.need || groups*group < a.need {
		return share{}, false
	}
	even := a.evenPart(nodes, free, group, a.o.AlignBySocket)
	left := map[int]int{}
	for node, n := range free {
		left[node] = n
	}
	var canGiveMore []int
	for _, node := range nodes {
		if free[node] < even {
			return share{}, false
		}
		if left[node] -= even; left[node] >= group {
			canGiveMore = append(canGiveMore, node)
		}
	}
	s := share{nodes: nodes, balance: math.MaxFloat64,
		oneSocket: a.o.AlignBySocket && len(a.t.SocketsOf(nodes...)) <= 1}
	rest := a.need - even*len(nodes)
	if rest == 0 {
		s.balance = deviation(left)
	}
	for k := len(canGiveMore); rest > 0 && k >= 1; k-- {
		for subset := range combinations(canGiveMore, k) {
			if b, ok := balanceAfter(left, subset, rest, group); ok && b < s.balance {
				s.balance, s.rest = b, subset
			}
		}
	}
	return s, s.balance < math.MaxFloat64
}

// balanceAfter is the balance when the nodes of subset give rest in groups, in turn; false: they
// cannot.
func balanceAfter(left map[int]int, subset []int, rest, group int) (float64, bool) {
	after := map[int]int{}
	for node, n := range left {
		after[node] = n
	}
	for rest > 0 {
		before := rest
		for _, node := range subset {
			if rest > 0 && after[node] >= group {
				after[node] -= group
				rest -= group
			}
		}
		if rest == before {
			return 0, false
		}
	}
	return deviation(after), true
}

// divide takes the CPUs of a share.
func (a *accumulator) divide(s share, n, group int) (cpuset.CPUSet, error) {
	fromNode := func(node, n int) int {
		set, err := packed(a.t, cpuset.New(members(a.free, byNode, node)...), n, a.o)
		if err != nil {
			return 0
		}
		a.take(set.List())
		return set.Size()
	}
	even := a.evenPart(s.nodes, a.freeByNode(), group, true)
	for _, node := range s.nodes {
		fromNode(node, even)
	}
	for rest := n - even*len(s.nodes); rest > 0; {
		before := rest
		for _, node := range s.rest {
			if rest > 0 && len(members(a.free, byNode, node)) >= group {
				rest -= fromNode(node, group)
			}
		}
		if rest == before {
			break
		}
	}
	switch {
	case a.need > 0:
		return cpuset.New(), fmt.Errorf("accounting error, not enough CPUs allocated, remaining: %v", a.need)
	case a.need < 0:
		return cpuset.New(), fmt.Errorf("accounting error, too many CPUs allocated, remaining: %v", a.need)
	}
	return a.result(), nil
}

// combinations goes through the subsets of k items, in the order of the items. Each is a slice of
// its own.
func combinations(items []int, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		if k >= 1 {
			combine(items, k, nil, yield)
		}
	}
}

func combine(items []int, k int, have []int, yield func([]int) bool) bool {
	if k == 0 {
		return yield(slices.Clone(have))
	}
	for i := 0; i+k <= len(items); i++ {
		if !combine(items[i+1:], k-1, append(have, items[i]), yield) {
			return false
		}
	}
	return true
}

// deviation is the standard deviation of the values, to three decimals.
func deviation(values map[int]int) float64 {
	round := func(f float64) float64 { return math.Round(f*1000) / 1000 }
	var sum float64
	for _, v := range values {
		sum += float64(v)
	}
	mean := round(sum / float64(len(values)))
	squares := make([]float64, 0, len(values))
	for _, v := range values {
		squares = append(squares, (float64(v)-mean)*(float64(v)-mean))
	}
	slices.Sort(squares)
	sum = 0
	for _, s := range squares {
		sum += s
	}
	return round(math.Sqrt(sum / float64(len(values))))
}
