package queue

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Stage is where an entry waits.
type Stage string

// The stages, named as in the journal.
const (
	Active        Stage = "active"
	Backoff       Stage = "backoff"
	Unschedulable Stage = "unschedulable"
	Gated         Stage = "gated"
	InFlight      Stage = "in flight"
)

// Entry is a Pod in the queue, or in flight (framework.QueuedEntityInfo). Who popped it owns it
// until it comes back.
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

// unschedulableEntry matters while the Pod is among the unschedulable pods.
type unschedulableEntry struct {
	gatingEvents []framework.ClusterEvent // that may have GatingPlugin let it in

	FlushedFromUnschedulable bool            // MaxUnschedulableTime, not an event, moved it last
	refusers                 []refuserKey    // under which unschedulablePods finds it
	gateCheckedAt            time.Time       // when PreEnqueue last refused it after MaxUnschedulableTime
	reportedIgnored          map[string]bool // plugin and event label: an ignored Move said so
}

// firstIgnored tells whether this is the first event of a label that a plugin expects nothing of,
// since the last attempt, and notes it.
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

// Pod is the Pod as the informer gave it last.
func (e *Entry) Pod() *v1.Pod { return e.Info.GetPod() }

// Type is that of a single Pod.
func (e *Entry) Type() framework.EntityKeyType { return framework.PodKeyType }

// GetPod is the Pod, for queue sort plugins.
func (e *Entry) GetPod() *v1.Pod { return e.Info.GetPod() }

// GetPriority is spec.priority.
func (e *Entry) GetPriority() int32 { return pod.Priority(e.Pod()) }

// GetTimestamp is when the Pod last came into the queue.
func (e *Entry) GetTimestamp() time.Time { return e.Timestamp }

// GetAttempts is how often the Pod was popped.
func (e *Entry) GetAttempts() int { return e.Attempts }

// GetBackoffExpiration is when the back-off ends.
func (e *Entry) GetBackoffExpiration() time.Time { return e.BackoffExpiration }

// GetUnschedulableCount is how many attempts plugins rejected.
func (e *Entry) GetUnschedulableCount() int { return e.UnschedulableCount }

// GetConsecutiveErrorsCount is how many attempts in a row failed by an error.
func (e *Entry) GetConsecutiveErrorsCount() int { return e.ConsecutiveErrors }

// GetInitialAttemptTimestamp is when the Pod was popped first; nil before.
func (e *Entry) GetInitialAttemptTimestamp() *time.Time { return e.InitialAttemptTimestamp }

// GetUnschedulablePlugins are the plugins that rejected the last attempt.
func (e *Entry) GetUnschedulablePlugins() sets.Set[string] { return e.UnschedulablePlugins }

// GetPendingPlugins are the plugins that asked the Pod to wait in the last attempt.
func (e *Entry) GetPendingPlugins() sets.Set[string] { return e.PendingPlugins }

// GetGatingPlugin is the plugin whose PreEnqueue refused the Pod; empty when none did.
func (e *Entry) GetGatingPlugin() string { return e.GatingPlugin }

// GetGatingPluginEvents are the events that may have the gating plugin let the Pod in.
func (e *Entry) GetGatingPluginEvents() []framework.ClusterEvent { return e.gatingEvents }

// entryHeap is a heap of entries ordered by less, then by arrival.
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
