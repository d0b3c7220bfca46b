package queue

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Stage is where an entry stands.
type Stage string

// The places, named as in the journal.
const (
	Active        Stage = "active"
	Backoff       Stage = "backoff"
	Unschedulable Stage = "unschedulable"
	Gated         Stage = "gated"
	InFlight      Stage = "in flight"
)

// Entry is a Pod in the queue.
type Entry struct {
	Info  *snapshot.PodInfo
	Stage Stage

	Attempts                int              // times it was popped
	UnschedulableCount      int              // of these, rejected by a plugin
	ConsecutiveErrors       int              // failures in a row that were errors
	UnschedulablePlugins    sets.Set[string] // plugins that rejected it last
	PendingPlugins          sets.Set[string] // plugins that said "not yet" last
	GatingPlugin            string           // plugin whose PreEnqueue said no
	Timestamp               time.Time        // when it last came into the queue
	InitialAttemptTimestamp *time.Time       // when it was first popped
	BackoffExpiration       time.Time
	AddedAt                 time.Time // when it came for the first time
	seq                     uint64    // order of arrival, the last tie breaker
	heapIndex               int       // position in its heap
	unschedulableEntry
}

// unschedulableEntry is what only matters while a Pod is parked.
type unschedulableEntry struct {
	gatingEvents []framework.ClusterEvent // that may open a closed gate

	FlushedFromUnschedulable bool            // it was woken by the passing of time, not by an event
	refusers                 []refuserKey    // under which the parked Pod is found
	gateCheckedAt            time.Time       // when a gated Pod's gate was last found closed after a long time
	reportedIgnored          map[string]bool // plugin and kind of event: said that it does not help
}

// firstIgnored tells whether it has not been said yet that a plugin expects nothing of a kind of
// event.
func (e *Entry) firstIgnored(plugin, label string) bool {
	k := plugin + " " + label
	if e.reportedIgnored[k] {
		return false
	}
	if e.reportedIgnored == nil {
		e.reportedIgnored = map[string]bool{}
	}
	e.reportedIgnored[k] = true
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
func (e *Entry) GetTimestamp() time.Time { return e.Timestamp }

// GetAttempts is Attempts.
func (e *Entry) GetAttempts() int { return e.Attempts }

// GetBackoffExpiration is BackoffExpiration.
func (e *Entry) GetBackoffExpiration() time.Time { return e.BackoffExpiration }

// GetUnschedulableCount is Misses.
func (e *Entry) GetUnschedulableCount() int { return e.UnschedulableCount }

// GetConsecutiveErrorsCount is Errors.
func (e *Entry) GetConsecutiveErrorsCount() int { return e.ConsecutiveErrors }

// GetInitialAttemptTimestamp is First.
func (e *Entry) GetInitialAttemptTimestamp() *time.Time { return e.InitialAttemptTimestamp }

// GetUnschedulablePlugins is Rejectors.
func (e *Entry) GetUnschedulablePlugins() sets.Set[string] { return e.UnschedulablePlugins }

// GetPendingPlugins is PendingPlugins.
func (e *Entry) GetPendingPlugins() sets.Set[string] { return e.PendingPlugins }

// GetGatingPlugin is GatingPlugin.
func (e *Entry) GetGatingPlugin() string { return e.GatingPlugin }

// GetGatingPluginEvents are the events that may open the gate.
func (e *Entry) GetGatingPluginEvents() []framework.ClusterEvent { return e.gatingEvents }

// entryHeap is a heap of entries in some order.
type entryHeap struct {
	list []*Entry
	less func(a, b *Entry) bool
}

// Len implements heap.Interface.
func (h *entryHeap) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *entryHeap) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if h.less(a, b) {
		return true
	}
	return !h.less(b, a) && a.seq < b.seq
}

// Swap implements heap.Interface.
func (h *entryHeap) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].heapIndex, h.list[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *entryHeap) Push(x any) {
	e := x.(*Entry)
	e.heapIndex = len(h.list)
	h.list = append(h.list, e)
}

// Pop implements heap.Interface.
func (h *entryHeap) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return e
}
