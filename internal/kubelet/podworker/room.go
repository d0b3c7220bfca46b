package podworker

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// displace ends a Pod so that this one, which is critical, has room.
func (w *worker) displace(v *v1.Pod) {
	w.life.room = append(w.life.room, w.pool.AtRest(v.UID))
	w.pool.d.Events.Pod(v, v1.EventTypeWarning, admit.Preempting, admit.PreemptMessage)
	w.put(journal.Acted{Controller: "kubelet", Action: "preempts " + v.Namespace + "/" + v.Name, Message: admit.PreemptMessage})
	w.pool.End(v.UID, podplan.End{
		Cause: "preempted for " + w.name.String(), Reason: admit.Preempting, Message: admit.PreemptMessage, Victim: admit.PreemptCondition,
		Asked: time.Now(), Grace: podplan.Grace(v),
	})
}

// roomMade tells whether the Pods that had to go have ended.
func (w *worker) roomMade() bool {
	for _, gone := range w.life.room {
		select {
		case <-gone:
		default:
			return false
		}
	}
	return true
}

// ringWaiting rings the Pods that are not admitted yet: they may wait for what has just ended.
func (p *Pool) ringWaiting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.view().Stage <= podplan.Preparing {
			w.ring(looked)
		}
	}
}
