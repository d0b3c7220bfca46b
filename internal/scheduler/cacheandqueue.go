package scheduler

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// flushInterval is how often Pods whose back-off or time in the unschedulable pool is over are
// moved to the active queue.
const flushInterval = time.Second

// cacheAndQueue is the scheduler cache, the scheduling queue and the nominator behind one lock.
// Event handlers feed it, the scheduling cycle takes Pods and snapshots from it, the binding cycle
// assumes and forgets Pods in it. All its methods may be called by any goroutine, except those that
// say that mu is held.
type cacheAndQueue struct {
	mu        sync.Mutex
	cache     *snapshot.Cache
	queue     *queue.Queue // set once, before anything is called
	nominator *queue.Nominator
	podGroups *podGroups    // nil without the gate GenericWorkload
	wake      chan struct{} // capacity one: something may be in the queue
	now       func() time.Time

	lastFlush        time.Time
	poppedSinceFlush bool // gauges change again: they are set a second after the last flush

	journal journal.Sink
	metrics *metrics.Metrics
}

func newCacheAndQueue(groups *podGroups, j journal.Sink, m *metrics.Metrics) *cacheAndQueue {
	return &cacheAndQueue{cache: snapshot.NewCache(), nominator: queue.NewNominator(), podGroups: groups,
		wake: make(chan struct{}, 1), now: time.Now, journal: j, metrics: m}
}

var (
	_ bind.AssumeCache       = (*cacheAndQueue)(nil)
	_ framework.PodActivator = (*cacheAndQueue)(nil)
)

// AssumePod counts a Pod on a node before the API server knows of it. The Pod's nomination ends: it
// takes room as an assumed Pod from here on. The error is that it stands on a node already.
func (s *cacheAndQueue) AssumePod(p *v1.Pod, node string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cache.AssumePod(p, node); err != nil {
		return err
	}
	s.nominator.DeleteNominatedPodIfExists(p.UID)
	s.podGroups.setAssumed(p, true)
	return nil
}

// ForgetPod takes an assumption back and moves the Pods that the room may help, as the deletion of
// an assigned Pod would. A Pod that the API server has confirmed meanwhile stays.
func (s *cacheAndQueue) ForgetPod(p *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cache.IsAssumedPod(p.UID) {
		return
	}
	s.cache.ForgetPod(p.UID)
	s.podGroups.setAssumed(p, false)
	s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.AssignedPod,
		ActionType: framework.Delete}, p, nil)
}

// ForgetPodQuietly takes an assumption back that refused no other Pod, so none is moved: a
// PodGroup's cycle gives its nodes back within the cycle.
func (s *cacheAndQueue) ForgetPodQuietly(p *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache.ForgetPod(p.UID)
	s.podGroups.setAssumed(p, false)
}

// isAssumed tells whether a Pod has a node by assumption.
func (s *cacheAndQueue) isAssumed(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.IsAssumedPod(uid)
}

// assignedPod is a Pod as it stands on a node; nil for others. mu is held: PreEnqueue plugins ask.
func (s *cacheAndQueue) assignedPod(uid types.UID) *v1.Pod {
	p, _ := s.cache.Pod(uid)
	return p
}

// snapshot freezes the cache for one cycle and lists the nodes that Pods are nominated to (nil:
// none).
func (s *cacheAndQueue) snapshot() (snap *snapshot.Snapshot, nominatedNodes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.UpdateSnapshot(), s.nominator.NominatedNodes()
}

// done ends the time in flight of a Pod that will not return to the queue, or that returns by an
// error: cluster events need not be kept for it.
func (s *cacheAndQueue) done(p *v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Done(p.UID)
}

// popped is what pop found.
type popped struct {
	entry *queue.Entry // nil: nothing is to be scheduled
	at    time.Time
	wake  time.Time // without an entry: when to call again; zero: when wake says so
}

// pop takes the next Pod off the queue. Once in flushInterval, or when flush says so, it first
// moves Pods whose time is over and sets the gauges.
func (s *cacheAndQueue) pop(flush bool) popped {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if flush || now.Sub(s.lastFlush) >= flushInterval {
		s.recordMoves(s.queue.Flush(now))
		s.lastFlush, s.poppedSinceFlush = now, false
		s.metrics.Cluster.SetCacheSize(s.cache.Counts())
		s.metrics.Queue.SetUnschedulable(s.queue.UnschedulablePodsByPlugin())
		s.metrics.Queue.SetInFlightEvents(s.queue.InFlightEvents())
		s.metrics.Queue.SetEntities(s.queue.EntityCounts(s.podGroups.keyFunc()))
	}
	out := popped{entry: s.queue.Pop(now), at: now}
	if out.entry == nil {
		out.wake = s.queue.NextFlush()
		if soon := s.lastFlush.Add(flushInterval); s.poppedSinceFlush &&
			(out.wake.IsZero() || soon.Before(out.wake)) {
			out.wake = soon
		}
	} else {
		s.poppedSinceFlush = true
	}
	s.metrics.Queue.SetPending(s.queue.StageCounts())
	return out
}

// poppedPodGroup is what popPodGroup found.
type poppedPodGroup struct {
	entries   []*queue.Entry              // the Pod it was called with first
	podGroup  *schedulingv1beta1.PodGroup // nil: there is none of that name
	scheduled int                         // Pods of the group that stand on nodes
}

// popPodGroup takes the other waiting members of the group of e, which was popped, off the queue.
func (s *cacheAndQueue) popPodGroup(e *queue.Entry) poppedPodGroup {
	namespace, name := e.Pod().Namespace, gangscheduling.PodGroupNameOf(e.Pod())
	out := poppedPodGroup{entries: []*queue.Entry{e}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state, err := s.podGroups.states.PodGroupStates().Get(namespace, name); err == nil {
		out.scheduled = state.ScheduledPodsCount()
		now := s.now()
		for _, p := range state.UnscheduledPods() {
			if other := s.queue.PopPod(p.UID, now); other != nil {
				out.entries = append(out.entries, other)
			}
		}
	}
	if g, err := s.podGroups.states.PodGroups().Get(namespace, name); err == nil {
		out.podGroup = g
	}
	return out
}

// nominatedNodeName is the node a Pod is nominated to; empty when it is not.
func (s *cacheAndQueue) nominatedNodeName(uid types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nominator.NominatedNodeName(uid)
}

// addNominatedPod counts a Pod's room on a node that it is nominated to: again, when a PodGroup
// gives the nodes of its cycle back.
func (s *cacheAndQueue) addNominatedPod(p framework.PodInfo, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nominator.AddNominatedPod(p, node)
}

// Activate moves Pods to the active queue; plugins call it (framework.PodActivator).
func (s *cacheAndQueue) Activate(_ logr.Logger, pods map[string]*v1.Pod) {
	uids := make([]types.UID, 0, len(pods))
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordMoves(s.queue.Activate(uids, s.now()))
}

// moveAllToActiveOrBackoffQueue moves the unschedulable Pods that an event may help; mu is held.
func (s *cacheAndQueue) moveAllToActiveOrBackoffQueue(e framework.ClusterEvent, before, after any) {
	began := time.Now()
	s.recordMoves(s.queue.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: e, Old: before, New: after}, s.now()))
	s.metrics.Events.Observe(e, began)
}

// recordMoves states each move in the journal and the metrics and wakes the scheduling cycle when a
// Pod may be taken; mu is held.
func (s *cacheAndQueue) recordMoves(moves []queue.Move) {
	s.metrics.Queue.ObserveIncoming(moves, func(m queue.Move) string { return s.podGroups.keyOf(m.Entry.Pod()) })
	for _, m := range moves {
		s.journal.Put(podRef(m.Entry.Pod()), queuedFact(m))
		if m.Ignored {
			continue
		}
		s.metrics.Queue.ObserveMove(m)
		if m.Stage != queue.Active && m.Stage != queue.Backoff {
			continue
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}
