package podworker

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// left is a Pod of an earlier kubelet that keeps its name although nobody works for it yet.
type left struct {
	pod    *v1.Pod
	source string // what it came from; empty: the runtime has nothing of it, but may have been asked for its sandbox
	since  time.Time
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Left says that the runtime has something of a Pod that came from this source. Nobody else is given its name until that is gone.
func (p *Pool) Left(pod *v1.Pod, source string) { p.keep(left{pod: pod, source: source}) }

// MayCome says that an earlier kubelet worked for this Pod, and may have died while the runtime made its sandbox. Nobody else is given its name until that would
// have been seen.
func (p *Pool) MayCome(pod *v1.Pod) {
	p.keep(left{pod: pod, since: time.Now()})
	time.AfterFunc(podplan.Settling, func() { p.giveUp(pod.UID) })
}

func (p *Pool) keep(l left) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.workers[l.pod.UID] != nil || p.left[l.pod.UID].pod != nil {
		return
	}
	p.left[l.pod.UID] = l
	if _, held := p.names[nameOf(l.pod)]; !held {
		p.names[nameOf(l.pod)] = l.pod.UID
	}
}

// Vanished gives back the names of Pods that were left in the runtime, and are not there any more.
func (p *Pool) Vanished(there func(types.UID) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid, l := range p.left {
		if l.source != "" && !there(uid) {
			p.free(nameOf(l.pod), uid)
		}
	}
}

// giveUp gives back the name of a Pod of which nothing came.
func (p *Pool) giveUp(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l, still := p.left[uid]; still && l.source == "" {
		p.free(nameOf(l.pod), uid)
	}
}

// claim gives a name to a uid unless another holds it, which it returns then.
func (p *Pool) claim(n types.NamespacedName, uid types.UID, source string) (holder types.UID, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if holder, held = p.names[n]; held && holder != uid {
		p.supersede(holder, source)
		return holder, true
	}
	p.names[n] = uid
	return "", false
}

// supersede ends what is left of a Pod whose source has another of its name: it will not come back to ask for it. Nobody has to wait until all sources have spoken,
// which may need the very Pod that waits. Callers hold p.mu.
func (p *Pool) supersede(holder types.UID, source string) {
	l, still := p.left[holder]
	if !still || l.source != source {
		return
	}
	p.begin(Wish{Pod: l.pod, Source: SourceRuntime, Gone: true, End: &podplan.End{Cause: "its source has another of its name", Asked: time.Now(), Grace: podplan.Grace(l.pod)}})
}

// release gives a name back and wakes those who may wait for it.
func (p *Pool) release(n types.NamespacedName, uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(n, uid)
}

// free is release for callers that hold p.mu. When several of one name were left, the next keeps it.
func (p *Pool) free(n types.NamespacedName, uid types.UID) {
	delete(p.left, uid)
	if p.names[n] != uid {
		return
	}
	delete(p.names, n)
	for other, l := range p.left {
		if nameOf(l.pod) == n {
			p.names[n] = other
			break
		}
	}
	for _, w := range p.workers {
		if w.name == n {
			w.ring(looked)
		}
	}
}
