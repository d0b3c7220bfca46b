package queue

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Place is where an entry stands.
type Place string

// The places, named as in the journal.
const (
	Active        Place = "active"
	Backoff       Place = "backoff"
	Unschedulable Place = "unschedulable"
	Gated         Place = "gated"
	InFlight      Place = "in flight"
)

// Entry is a Pod in the queue.
type Entry struct {
	Info  *snapshot.PodInfo
	Place Place

	Attempts     int              // times it was popped
	Misses       int              // of these, rejected by a plugin
	Errors       int              // failures in a row that were errors
	Rejectors    sets.Set[string] // plugins that rejected it last
	PendingBy    sets.Set[string] // plugins that said "not yet" last
	GatedBy      string           // plugin whose PreEnqueue said no
	Since        time.Time        // when it last came into the queue
	First        *time.Time       // when it was first popped
	BackoffUntil time.Time
	Arrived      time.Time // when it came for the first time
	seq          uint64    // order of arrival, the last tie breaker
	at           int       // position in its heap
	parkedEntry
}

// parkedEntry is what only matters while a Pod is parked.
type parkedEntry struct {
	gatingEvents []framework.ClusterEvent // that may open a closed gate

	Flushed bool            // it was woken by the passing of time, not by an event
	keys    []key           // under which the parked Pod is found
	checked time.Time       // when a gated Pod's gate was last found closed after a long time
	ignored map[string]bool // plugin and kind of event: said that it does not help
}

// firstIgnored tells whether it has not been said yet that a plugin expects nothing of a kind of event.
func (e *Entry) firstIgnored(plugin, label string) bool {
	k := plugin + " " + label
	if e.ignored[k] {
		return false
	}
	if e.ignored == nil {
		e.ignored = map[string]bool{}
	}
	e.ignored[k] = true
	return true
}

var _ framework.QueuedEntityInfo = (*Entry)(nil)

// Pod is the Pod as last seen.
func (e *Entry) Pod() *v1.Pod { return e.Info.GetPod() }

// Type is that of a single Pod.
func (e *Entry) Type() framework.EntityKeyType { return framework.PodKeyType }

// GetPod is the Pod, for queue sort plugins.
func (e *Entry) GetPod() *v1.Pod { return e.Info.GetPod() }

// GetPriority is spec.priority.
func (e *Entry) GetPriority() int32 { return pod.Priority(e.Pod()) }

// GetTimestamp is Since.
func (e *Entry) GetTimestamp() time.Time { return e.Since }

// GetAttempts is Attempts.
func (e *Entry) GetAttempts() int { return e.Attempts }

// GetBackoffExpiration is BackoffUntil.
func (e *Entry) GetBackoffExpiration() time.Time { return e.BackoffUntil }

// GetUnschedulableCount is Misses.
func (e *Entry) GetUnschedulableCount() int { return e.Misses }

// GetConsecutiveErrorsCount is Errors.
func (e *Entry) GetConsecutiveErrorsCount() int { return e.Errors }

// GetInitialAttemptTimestamp is First.
func (e *Entry) GetInitialAttemptTimestamp() *time.Time { return e.First }

// GetUnschedulablePlugins is Rejectors.
func (e *Entry) GetUnschedulablePlugins() sets.Set[string] { return e.Rejectors }

// GetPendingPlugins is PendingBy.
func (e *Entry) GetPendingPlugins() sets.Set[string] { return e.PendingBy }

// GetGatingPlugin is GatedBy.
func (e *Entry) GetGatingPlugin() string { return e.GatedBy }

// GetGatingPluginEvents are the events that may open the gate.
func (e *Entry) GetGatingPluginEvents() []framework.ClusterEvent { return e.gatingEvents }

// heapOf is a heap of entries in some order.
type heapOf struct {
	list []*Entry
	less func(a, b *Entry) bool
}

// Len implements heap.Interface.
func (h *heapOf) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *heapOf) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if h.less(a, b) {
		return true
	}
	return !h.less(b, a) && a.seq < b.seq
}

// Swap implements heap.Interface.
func (h *heapOf) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].at, h.list[j].at = i, j
}

// Push implements heap.Interface.
func (h *heapOf) Push(x any) {
	e := x.(*Entry)
	e.at = len(h.list)
	h.list = append(h.list, e)
}

// Pop implements heap.Interface.
func (h *heapOf) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return e
}
