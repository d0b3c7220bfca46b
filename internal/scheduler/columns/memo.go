package columns

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Memo is the column form of a rule that reads a node's object: the rule is called once for all
// nodes that are alike in what it reads. One goroutine at a time uses it.
type Memo[V comparable] struct {
	rows    *Rows
	rule    func(n *v1.Node) V
	numbers []int32               // by row: nodes with equal numbers are alike
	number  func(row int32) int32 // instead of numbers, where it is not nil
	known   []memoized[V]         // by number
}

type memoized[V comparable] struct {
	known bool
	value V
}

// ByTaints makes the column form of a rule that reads a node's taints only.
func ByTaints[V comparable](t *Table, rule func(n *v1.Node) V) *Memo[V] {
	return &Memo[V]{rows: &t.Rows, rule: rule, numbers: t.TaintSet}
}

// ByLabels makes the column form of a rule that reads a node's labels of these keys only.
func ByLabels[V comparable](t *Table, keys []string, rule func(n *v1.Node) V) *Memo[V] {
	m := &Memo[V]{rows: &t.Rows, rule: rule}
	if len(keys) == 1 {
		m.numbers = t.Labels(keys[0]).Numbers
		return m
	}
	m.number = func(int32) int32 { return 0 }
	for _, key := range keys {
		l, before, pairs := t.Labels(key), m.number, map[[2]int32]int32{}
		m.number = func(row int32) int32 {
			pair := [2]int32{before(row), l.Numbers[row]}
			n, known := pairs[pair]
			if !known {
				n = int32(len(pairs))
				pairs[pair] = n
			}
			return n
		}
	}
	return m
}

// Fill writes what the rule says of each row's node to out, where nothing was written yet. It is
// the Filter or the Score of an Evaluator.
func (m *Memo[V]) Fill(rows []int32, out []V) {
	var nothing V
	known, numbers, number := m.known, m.numbers, m.number
	for i, row := range rows {
		if out[i] != nothing {
			continue
		}
		var n int32
		if number == nil {
			n = numbers[row]
		} else {
			n = number(row)
		}
		if int(n) >= len(known) || !known[n].known {
			m.call(n, row)
			known = m.known
		}
		if v := known[n].value; v != nothing {
			out[i] = v
		}
	}
}

// call notes what the rule says of nodes with a number, from the node of a row that has it.
func (m *Memo[V]) call(n, row int32) {
	for int(n) >= len(m.known) {
		m.known = append(m.known, memoized[V]{})
	}
	m.known[n] = memoized[V]{true, m.rule(m.rows.NodeObjects[row])}
}

// FilterEach makes the Filter of an Evaluator from a rule that is called row by row.
func FilterEach(rule func(row int32) *framework.Status) func(rows []int32, no []*framework.Status) {
	return func(rows []int32, no []*framework.Status) {
		for i, row := range rows {
			if no[i] == nil {
				no[i] = rule(row)
			}
		}
	}
}
