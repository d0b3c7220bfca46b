package virtualnode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
)

// podWorker is one Pod on its node: what a kubelet knows, and a runtime that is a list of things to
// come.
type podWorker struct {
	pod      *v1.Pod
	times    behavior.Drawn
	ip       string
	facts    podplan.Facts
	observed podplan.Observed
	health   map[string]podplan.Health

	coming    []outcome             // what actions under way will bring, by time
	wake      time.Time             // when to go on; zero: when the Pod changes
	marked    bool                  // it is in Kubelets.due
	began     bool                  // the time to start the first container was spent
	evicted   *podplan.Termination  // by its kubelet; nil: it was not
	volumes   []v1.UniqueVolumeName // those that are attached for it
	attaching time.Duration         // how much of the time to start was spent on attaching
	fails     string                // why its containers do not run or become ready; empty: they do, in time
}

// outcome is what becomes true of a Pod at a time.
type outcome struct {
	at     time.Time
	blocks bool // nothing else is planned before
	do     func(w *podWorker, at time.Time)
}

// maxRounds bounds the decisions of one step, which end by themselves.
const maxRounds = 100

// newWorker takes a Pod in; of one that runs already it learns from its status what runs.
func (k *Kubelets) newWorker(p *v1.Pod) *podWorker {
	k.ips++
	w := &podWorker{pod: p, times: k.model.Of(p), ip: fmt.Sprintf("10.%d.%d.%d", 64+k.ips>>16, k.ips>>8&255, k.ips&255),
		health: map[string]podplan.Health{}}
	w.learn(k.now())
	if !w.facts.VolumesReady.IsZero() && k.attachable != nil && len(p.Spec.Volumes) > 0 {
		w.volumes, _ = k.attachable(p)
	}
	return w
}

// learn takes what runs from the Pod's status.
func (w *podWorker) learn(now time.Time) {
	s := &w.pod.Status
	if s.StartTime == nil {
		return
	}
	started := s.StartTime.Time
	w.facts.Accepted, w.facts.VolumesReady = started, started
	if s.PodIP != "" {
		w.ip = s.PodIP
	}
	w.fails = failing(w.pod, w.times.Ready, now)
	var running []v1.ContainerStatus
	for _, st := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		if st.State.Running != nil {
			running = append(running, st)
		}
	}
	if len(running) > 0 || s.Phase == v1.PodRunning {
		w.began = true
		w.observed.Sandboxes = []podplan.Sandbox{{ID: "0", Ready: true, Created: started, IPs: []string{w.ip}}}
	}
	for _, st := range running {
		w.observed.Containers = append(w.observed.Containers, podplan.Container{ID: strings.TrimPrefix(st.ContainerID,
			runtimeName+"://"), Name: st.Name, Sandbox: "0", Attempt: int(st.RestartCount), State: podplan.Running,
			Created: st.State.Running.StartedAt.Time, Started: st.State.Running.StartedAt.Time,
			Image: podplan.Image{Name: st.Image, Ref: st.ImageID}})
		w.health[st.Name] = podplan.Health{Started: st.Started == nil || *st.Started, Ready: st.Ready}
		if !st.Ready && w.fails == "" {
			w.readyAt(st.Name, now.Add(w.times.Ready))
		}
		w.endsAt(st.Name, st.State.Running.StartedAt.Time, now)
	}
	w.observed = podstatus.MergeKnown(w.observed, *s)
	for i := range w.observed.Containers { // an init container that ended did so in this sandbox
		if c := &w.observed.Containers[i]; c.Sandbox == "" && len(w.observed.Sandboxes) > 0 {
			c.Sandbox = "0"
		}
	}
	w.observed.Sort()
}

// runtimeName is the runtime's name in container ids.
const runtimeName = "simulated"

// in is the input of the decisions.
func (w *podWorker) in(now time.Time) podplan.In {
	in := podplan.In{Pod: w.pod, Observed: w.observed, Facts: w.facts, Health: w.health, Now: now}
	if d := w.pod.DeletionTimestamp; d != nil {
		grace := pod.GracePeriod(&w.pod.Spec)
		if s := w.pod.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		in.End = &podplan.Termination{Cause: "deleted", RequestedAt: d.Add(-grace), Grace: grace}
		in.Remove = true
	}
	if w.evicted != nil {
		in.End = w.evicted
	}
	return in
}

// advance does what is due and what the plan asks for, until everything waits for a later time, or
// for volumes. It reports whether nothing of the Pod is left on the node.
func (w *podWorker) advance(now time.Time, waitsForVolumes func(*podWorker) bool) (gone bool) {
	if w.facts.Accepted.IsZero() {
		w.facts.Accepted = now
	}
	for range maxRounds {
		w.applyDue(now)
		w.wake = w.next()
		if w.blocked() {
			return false
		}
		in := w.in(now)
		if end := podplan.EffectiveTermination(in); end != nil && w.facts.StopRequested.IsZero() {
			w.facts.StopRequested = end.RequestedAt
			in.Facts = w.facts
		} else if end == nil && waitsForVolumes(w) {
			return false
		}
		plan := podplan.Next(in)
		if !w.facts.StopRequested.IsZero() && w.facts.ContainersStopped.IsZero() && !w.observed.Alive() {
			w.facts.ContainersStopped = now
			continue
		}
		if len(plan.Do) == 0 {
			if !plan.Wake.IsZero() && (w.wake.IsZero() || plan.Wake.Before(w.wake)) {
				w.wake = plan.Wake
			}
			return plan.Done && in.Remove
		}
		at := now
		for _, a := range plan.Do {
			at = w.begin(a, at)
		}
	}
	return false
}

// applyDue makes true what is due at now.
func (w *podWorker) applyDue(now time.Time) {
	for {
		i := slices.IndexFunc(w.coming, func(o outcome) bool { return !o.at.After(now) })
		if i < 0 {
			return
		}
		o := w.coming[i]
		w.coming = slices.Delete(w.coming, i, i+1)
		o.do(w, o.at)
	}
}

// expect adds an outcome in the order of times.
func (w *podWorker) expect(o outcome) {
	i := slices.IndexFunc(w.coming, func(other outcome) bool { return other.at.After(o.at) })
	if i < 0 {
		i = len(w.coming)
	}
	w.coming = slices.Insert(w.coming, i, o)
}

func (w *podWorker) next() time.Time {
	if len(w.coming) == 0 {
		return time.Time{}
	}
	return w.coming[0].at
}

func (w *podWorker) blocked() bool {
	return slices.ContainsFunc(w.coming, func(o outcome) bool { return o.blocks })
}

// status is what the kubelet writes at now.
func (w *podWorker) status(now time.Time) v1.PodStatus {
	in := w.in(now)
	waiting := map[string]podstatus.WaitingReason{}
	return podstatus.Generate(podstatus.In{Pod: w.pod, Observed: w.observed, Facts: w.facts,
		End: podplan.EffectiveTermination(in), Health: w.health, Waiting: waiting,
		Node: podstatus.Node{HostIPs: []string{"192.0.2.1"}, Runtime: runtimeName}, Now: now})
}

// sameStatus tells whether a kubelet would not write the second status over the first.
func sameStatus(a, b v1.PodStatus) bool { return equality.Semantic.DeepEqual(a, b) }

func sortWorkers(all []*podWorker) {
	slices.SortFunc(all, func(a, b *podWorker) int {
		if c := a.wake.Compare(b.wake); c != 0 {
			return c
		}
		return strings.Compare(pod.Key(a.pod), pod.Key(b.pod))
	})
}
