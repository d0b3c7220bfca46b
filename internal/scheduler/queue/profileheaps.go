package queue

import (
	"container/heap"

	"k8s.io/kube-scheduler/framework"
)

// ProfileLess is the order of a QueueSort plugin. Profiles whose orders have the same name share a
// heap.
type ProfileLess struct {
	Name string // of the queue sort plugin
	Less framework.LessFunc
}

// profileHeaps is a queue with a heap for each order: within a heap its own order holds, among the
// heads of heaps a common one. Comparing by two orders in one heap would be no order.
type profileHeaps struct {
	profileOf func(*Entry) ProfileLess
	// puts another order before that of a heap; nil: none
	wrapLess   func(less func(a, b *Entry) bool) func(a, b *Entry) bool
	lessAcross func(a, b *Entry) bool
	heaps      map[string]*entryHeap
	names      []string // in order of appearance
	n          int
}

func (l *profileHeaps) heapOf(e *Entry) *entryHeap {
	o := l.profileOf(e)
	h := l.heaps[o.Name]
	if h == nil {
		less := func(a, b *Entry) bool { return o.Less(a, b) }
		if l.wrapLess != nil {
			less = l.wrapLess(less)
		}
		h = &entryHeap{less: less}
		l.heaps[o.Name] = h
		l.names = append(l.names, o.Name)
	}
	return h
}

func (l *profileHeaps) push(e *Entry) {
	heap.Push(l.heapOf(e), e)
	l.n++
}

func (l *profileHeaps) remove(e *Entry) {
	heap.Remove(l.heapOf(e), e.heapIndex)
	l.n--
}

func (l *profileHeaps) fix(e *Entry) { heap.Fix(l.heapOf(e), e.heapIndex) }

// peek is the head that goes before all other heads; nil when all heaps are empty.
func (l *profileHeaps) peek() *Entry {
	var best *Entry
	for _, name := range l.names {
		h := l.heaps[name]
		if len(h.list) == 0 {
			continue
		}
		if e := h.list[0]; best == nil || l.lessAcross(e, best) || !l.lessAcross(best, e) && e.seq < best.seq {
			best = e
		}
	}
	return best
}
