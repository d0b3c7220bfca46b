package podworker

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// leftoverPod is a Pod of an earlier kubelet that keeps its name although nobody works for it yet.
type leftoverPod struct {
	pod    *v1.Pod
	source string // what it came from; empty: the runtime has nothing of it, but may have been asked for its sandbox
	since  time.Time
}

func podKey(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// ReserveName says that the runtime has something of a Pod that came from this source. Nobody else
// is given its name until that is gone.
func (p *Pool) ReserveName(pod *v1.Pod, source string) {
	p.reserveName(leftoverPod{pod: pod, source: source})
}

// ReserveNameForUncertainSandbox says that an earlier kubelet worked for this Pod, and may have
// died while the runtime made its sandbox. Nobody else is given its name until that would have been
// seen.
func (p *Pool) ReserveNameForUncertainSandbox(pod *v1.Pod) {
	p.reserveName(leftoverPod{pod: pod, since: time.Now()})
	time.AfterFunc(podplan.UncertainFor, func() { p.releaseReservation(pod.UID) })
}

// reserveName holds the Pod's name, unless a worker has the Pod, or another Pod has the name.
func (p *Pool) reserveName(l leftoverPod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[l.pod.UID] != nil || p.leftovers[l.pod.UID].pod != nil {
		return
	}
	p.leftovers[l.pod.UID] = l
	if _, isHeld := p.names[podKey(l.pod)]; !isHeld {
		p.names[podKey(l.pod)] = l.pod.UID
	}
}

// ReleaseVanishedNames gives back the names of Pods that were left in the runtime, and are not
// there any more.
func (p *Pool) ReleaseVanishedNames(there func(types.UID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, l := range p.leftovers {
		if l.source != "" && !there(uid) {
			p.releaseNameLocked(podKey(l.pod), uid)
		}
	}
}

// releaseReservation gives back the name of a Pod of which nothing came.
func (p *Pool) releaseReservation(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, still := p.leftovers[uid]; still && l.source == "" {
		p.releaseNameLocked(podKey(l.pod), uid)
	}
}

// claimName gives a name to a uid unless another holds it, which it returns then.
func (p *Pool) claimName(n types.NamespacedName, uid types.UID, source string) (holder types.UID, isHeld bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holder, isHeld = p.names[n]; isHeld && holder != uid {
		p.terminateLeftover(holder, source)
		return holder, true
	}
	p.names[n] = uid
	return "", false
}

// terminateLeftover ends what is left of a Pod whose source has another of its name: it will not
// come back to ask for it. Nobody has to wait until all sources have spoken, which may need the
// very Pod that waits. Callers hold p.mu.
func (p *Pool) terminateLeftover(holder types.UID, source string) {
	l, still := p.leftovers[holder]
	if !still || l.source != source {
		return
	}
	p.startWorker(UpdatePodOptions{Pod: l.pod, Source: SourceRuntime, Gone: true,
		Termination: &podplan.Termination{Cause: "its source has another of its name", RequestedAt: time.Now(),
			Grace: pod.GracePeriod(&l.pod.Spec)}})
}

// releaseName gives a name back and wakes those who may wait for it.
func (p *Pool) releaseName(n types.NamespacedName, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseNameLocked(n, uid)
}

// releaseNameLocked is release for callers that hold p.mu. When several of one name were left, the
// next keeps it.
func (p *Pool) releaseNameLocked(n types.NamespacedName, uid types.UID) {
	delete(p.leftovers, uid)
	if p.names[n] != uid {
		return
	}
	delete(p.names, n)
	for other, l := range p.leftovers {
		if podKey(l.pod) == n {
			p.names[n] = other
			break
		}
	}
	for _, w := range p.workers {
		if w.name() == n {
			w.mailbox.Wake(wakeRuntime)
		}
	}
}
