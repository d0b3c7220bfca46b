// Package nodechanges remembers for which nodes something changed, and when, so that a plugin looks
// again only there.
//
// In: names of nodes, as what their statuses depend on changes. Out: the nodes changed since a
// time. Pure.
package nodechanges

import "slices"

// Source tells which nodes changed.
type Source interface {
	// Since lists the nodes that may have changed after a time, some more than once; false: any may
	// have. now is the time to ask with next.
	Since(clock int64) (nodes []string, now int64, known bool)
}

// Log is a Source to write to. Its time is the number of changes; before the first it is 0. One at
// a time may use it.
type Log struct {
	now    int64
	oldest int64    // what changed until then is forgotten, or was about all nodes
	nodes  []string // of the changes after from
}

var _ Source = (*Log)(nil)

// maxNodes bounds the log: who has not asked for longer learns that anything may have changed.
const maxNodes = 1 << 14

// Note says that something changed for a node.
func (l *Log) Note(node string) {
	l.now++
	if l.nodes = append(l.nodes, node); len(l.nodes) > maxNodes {
		drop := len(l.nodes) / 2
		l.nodes, l.oldest = slices.Clone(l.nodes[drop:]), l.oldest+int64(drop)
	}
}

// NoteAll says that something changed for any node.
func (l *Log) NoteAll() {
	l.now++
	l.oldest, l.nodes = l.now, nil
}

// Since lists the nodes that something changed for after a time.
func (l *Log) Since(clock int64) (nodes []string, now int64, known bool) {
	if clock < l.oldest {
		return nil, l.now, false
	}
	return slices.Clone(l.nodes[clock-l.oldest:]), l.now, true
}
