package metrics

import (
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
)

// Queue counts Pods, and entities (Pods that stand alone, and PodGroups), in the scheduling queue.
// Calls must not overlap: the scheduler's lock is held.
type Queue struct {
	pending          *gaugeVec
	incoming         *counterVec
	entities         *gaugeVec
	incomingEntities *counterVec
	unschedulable    *gaugeVec
	inFlight         *gaugeVec

	// what the gauges say
	lastPending       queue.StageCounts
	lastUnschedulable map[queue.UnschedulablePlugin]int
	lastInFlight      map[string]int
}

// Types of entities, as upstream's labels.
const (
	typePod   = "pod"
	typeGroup = "podgroup"
)

func newQueue(r metrics.KubeRegistry) *Queue {
	m := &Queue{
		pending: gauge("pending_pods", "Pending Pods by queue: active, backoff, unschedulable, gated.", metrics.STABLE,
			"queue"),
		incoming: counter("queue_incoming_pods_total", "Pods added to scheduling queues by event and queue.",
			metrics.STABLE, "queue", "event"),
		entities: gauge("queued_entities",
			"Pods that stand alone ('pod') and PodGroups ('podgroup') by queue: active, backoff, unschedulable, gated.",
			metrics.ALPHA, "queue", "type"),
		incomingEntities: counter("queue_incoming_entities_total",
			"Pods that stand alone and PodGroups added to scheduling queues by event and queue.", metrics.ALPHA,
			"queue",
			"event", "type"),
		unschedulable: gauge("unschedulable_pods", "Unschedulable Pods by the plugin that refused them.",
			metrics.BETA, "plugin", "profile"),
		inFlight: gauge("inflight_events",
			"Events kept for Pods that are being scheduled, by kind; PodPopped are those Pods.", metrics.ALPHA,
			"event"),
	}
	r.MustRegister(m.pending, m.incoming, m.entities, m.incomingEntities, m.unschedulable, m.inFlight)
	return m
}

func (m *Queue) init() {
	for _, q := range stages {
		m.pending.WithLabelValues(string(q)).Set(0)
	}
	m.SetEntities(nil)
	m.inFlight.WithLabelValues("PodPopped").Set(0)
}

// SetPending sets how many Pods wait where. It is called for every Pod that is popped.
func (m *Queue) SetPending(c queue.StageCounts) {
	if c == m.lastPending {
		return
	}
	m.lastPending = c
	for i, n := range [len(stages)]int{c.Active, c.Backoff, c.Unschedulable, c.Gated} {
		m.pending.WithLabelValues(string(stages[i])).Set(float64(n))
	}
}

// ObserveMove counts a Pod that came to a queue.
func (m *Queue) ObserveMove(v queue.Move) {
	m.incoming.WithLabelValues(queueLabel(v), eventLabel(v)).Inc()
}

// ObserveIncoming counts entities that came to be tried, or to be kept out by a gate, as upstream
// does; not those that go to wait. groupOf is the name of the PodGroup a Pod is scheduled with, or
// empty. Members of a group that move together count once.
func (m *Queue) ObserveIncoming(moves []queue.Move, groupOf func(queue.Move) string) {
	var seen map[[4]string]bool
	for _, v := range moves {
		if v.Ignored || v.Stage != queue.Active && v.Stage != queue.Gated {
			continue
		}
		name := groupOf(v)
		if name == "" {
			m.incomingEntities.WithLabelValues(queueLabel(v), eventLabel(v), typePod).Inc()
			continue
		}
		key := [4]string{v.Entry.Pod().Namespace, name, string(v.Stage), v.Cause}
		if seen[key] {
			continue
		}
		if seen == nil {
			seen = map[[4]string]bool{}
		}
		seen[key] = true
		m.incomingEntities.WithLabelValues(queueLabel(v), eventLabel(v), typeGroup).Inc()
	}
}

// queueLabel is upstream's name of the queue a Pod came to: gated Pods count as unschedulable.
func queueLabel(v queue.Move) string {
	if v.Stage == queue.Gated {
		return string(queue.Unschedulable)
	}
	return string(v.Stage)
}

// eventLabel is upstream's name of the event that moved a Pod.
func eventLabel(v queue.Move) string {
	if v.Cause == queue.CausePodAdd {
		return "UnscheduledPodAdd"
	}
	return v.Cause
}

// SetEntities sets how many entities wait where.
func (m *Queue) SetEntities(now map[queue.Stage]queue.EntityCounts) {
	for _, at := range stages {
		m.entities.WithLabelValues(string(at), typePod).Set(float64(now[at].Pods))
		m.entities.WithLabelValues(string(at), typeGroup).Set(float64(now[at].Groups))
	}
}

// SetUnschedulable sets the number of unschedulable Pods by plugin; it keeps the map.
func (m *Queue) SetUnschedulable(now map[queue.UnschedulablePlugin]int) {
	for r, n := range now {
		m.unschedulable.WithLabelValues(r.Plugin, r.Profile).Set(float64(n))
	}
	for r := range m.lastUnschedulable {
		if _, still := now[r]; !still {
			m.unschedulable.WithLabelValues(r.Plugin, r.Profile).Set(0)
		}
	}
	m.lastUnschedulable = now
}

// SetInFlightEvents sets how many events, by label, are kept for Pods in flight; it keeps the map.
func (m *Queue) SetInFlightEvents(now map[string]int) {
	for event, n := range now {
		m.inFlight.WithLabelValues(event).Set(float64(n))
	}
	for event := range m.lastInFlight {
		if _, still := now[event]; !still {
			m.inFlight.WithLabelValues(event).Set(0)
		}
	}
	m.lastInFlight = now
}
