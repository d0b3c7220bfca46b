package queue

import (
	"container/heap"

	"k8s.io/kube-scheduler/framework"
)

// Order is how the Pods of a profile are sorted. Profiles whose orders have the same name share one lane.
type Order struct {
	Name string // of the queue sort plugin
	Less framework.LessFunc
}

// lanes is a queue of queues: within a lane its own order holds, among the heads of lanes a common one. A comparison that mixes orders would be none.
type lanes struct {
	lane   func(*Entry) Order
	wrap   func(less func(a, b *Entry) bool) func(a, b *Entry) bool // an order in force before that of a lane; nil: none
	common func(a, b *Entry) bool
	heaps  map[string]*heapOf
	names  []string // in order of appearance
	n      int
}

func (l *lanes) of(e *Entry) *heapOf {
	o := l.lane(e)
	h := l.heaps[o.Name]
	if h == nil {
		less := func(a, b *Entry) bool { return o.Less(a, b) }
		if l.wrap != nil {
			less = l.wrap(less)
		}
		h = &heapOf{less: less}
		l.heaps[o.Name] = h
		l.names = append(l.names, o.Name)
	}
	return h
}

func (l *lanes) push(e *Entry) {
	heap.Push(l.of(e), e)
	l.n++
}

func (l *lanes) remove(e *Entry) {
	heap.Remove(l.of(e), e.at)
	l.n--
}

func (l *lanes) fix(e *Entry) { heap.Fix(l.of(e), e.at) }

// first is the head that goes before all other heads; nil when all lanes are empty.
func (l *lanes) first() *Entry {
	var best *Entry
	for _, name := range l.names {
		h := l.heaps[name]
		if len(h.list) == 0 {
			continue
		}
		if e := h.list[0]; best == nil || l.common(e, best) || !l.common(best, e) && e.seq < best.seq {
			best = e
		}
	}
	return best
}
