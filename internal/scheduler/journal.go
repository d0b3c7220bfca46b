package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
)

func ref(p *v1.Pod) journal.Ref { return pod.Ref(p) }

func queued(m queue.Move) journal.Queued {
	f := journal.Queued{Queue: string(m.To), Cause: m.Cause, Attempt: m.Entry.Attempts, By: m.By, Ignored: m.Ignored}
	if m.To == queue.Backoff {
		f.Until = m.Entry.BackoffUntil
	}
	switch o := m.About.(type) {
	case *v1.Node:
		f.Object = "node/" + o.Name
	case *v1.Pod:
		f.Object = "pod/" + pod.Key(o)
	case *resourceapi.ResourceClaim:
		f.Object = "resourceclaim/" + o.Namespace + "/" + o.Name
	case *resourceapi.ResourceSlice:
		f.Object = "resourceslice/" + o.Name
	case *resourceapi.DeviceClass:
		f.Object = "deviceclass/" + o.Name
	}
	return f
}

// recording fixes what a ruling is made from and gives what hands the ruling to Record, with all of that, once it is made.
func (s *Scheduler) recording(a *attempt, in *place.In) (done func()) {
	if s.Record == nil {
		return func() {}
	}
	t := replay.Taken{At: time.Now(), Config: s.configs[a.profile.Name], Selector: a.profile.Handle.SelectorOf(in.Pod).String(), Storage: replay.FactsOf(in.Judges)}
	namespaces, err := s.Informers.Core().V1().Namespaces().Lister().List(labels.Everything())
	if err == nil { // from memory it does not fail
		t.Namespaces = namespaces
	}
	if m := s.gear.manager; m != nil {
		t.Devices, err = replay.DevicesFor(in.Pod, m)
		if err != nil {
			klog.Background().Error(err, "The decision is recorded without its devices", "pod", klog.KObj(in.Pod))
		}
	}
	if in.Nominated != nil {
		promised := map[string][]framework.PodInfo{}
		for _, node := range in.Promised {
			promised[node] = in.Nominated(node)
		}
		in.Nominated = func(node string) []framework.PodInfo { return promised[node] }
	}
	pick := in.Pick
	in.Pick = func(n int) int {
		t.Pick = pick(n)
		return t.Pick
	}
	given := *in
	return func() {
		t.In, t.Fact = given, a.fact
		s.Record(replay.Take(t))
	}
}

// preempting writes down who is going to be asked to leave for a Pod.
func (s *Scheduler) preempting(preemptor *v1.Pod, node string, victims []*v1.Pod) {
	f := journal.Preempting{Node: node}
	for _, v := range victims {
		f.Victims = append(f.Victims, pod.Key(v))
	}
	s.Journal.Put(ref(preemptor), f)
}

// preempted writes down why a Pod had to leave.
func (s *Scheduler) preempted(victim *v1.Pod, why journal.Preempted) {
	s.Journal.Put(ref(victim), why)
}

// parked writes down for whom a Pod waits that has a node and is not bound yet.
func (s *Scheduler) parked(c glue.Cycle, w glue.Wait) {
	f := journal.Waiting{For: "plugin " + w.Plugin + " at Permit, with node " + c.Node + " held", Since: time.Now(), Next: "after " + w.Most.String() + " the Pod gives the node back and is tried again"}
	if w.Why != "" {
		f.For += ": " + w.Why
	}
	s.Journal.Put(ref(c.Pod), f)
}
