package podworker

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// preempt ends a Pod so that this one, which is critical, has room.
func (w *worker) preempt(v *v1.Pod) {
	w.state.victims = append(w.state.victims, w.pool.TerminatedCh(v.UID))
	w.pool.d.Events.Pod(v, v1.EventTypeWarning, admit.Preempting, admit.PreemptMessage)
	w.put(journal.Acted{Controller: "kubelet", Action: "preempts " + v.Namespace + "/" + v.Name,
		Message: admit.PreemptMessage})
	w.pool.KillPod(v.UID, podplan.Termination{
		Cause: "preempted for " + w.name.String(), Reason: admit.Preempting, Message: admit.PreemptMessage,
		Victim:      admit.PreemptCondition,
		RequestedAt: time.Now(), Grace: podplan.GracePeriod(v),
	})
}

// victimsTerminated tells whether the Pods that had to go have ended.
func (w *worker) victimsTerminated() bool {
	for _, terminated := range w.state.victims {
		select {
		case <-terminated:
		default:
			return false
		}
	}
	return true
}

// wakeUnadmitted rings the Pods that are not admitted yet: they may wait for what has just ended.
func (p *Pool) wakeUnadmitted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.workers {
		if w.view().Stage <= podplan.Preparing {
			w.wake(wakeRuntime)
		}
	}
}
