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
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

func podRef(p *v1.Pod) journal.Ref { return pod.Ref(p) }

func queuedFact(m queue.Move) journal.Queued {
	f := journal.Queued{Queue: string(m.Stage), Cause: m.Cause, Attempt: m.Entry.Attempts, By: m.Plugin,
		Ignored: m.Ignored}
	if m.Stage == queue.Backoff {
		f.Until = m.Entry.BackoffExpiration
	}
	switch o := m.Object.(type) {
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

// startRecording fixes what a ruling is made from and gives what hands the ruling to Record, with
// all of that, once it is made.
func (s *Scheduler) startRecording(a *schedulingAttempt, in *schedule.Input) (done func()) {
	if s.Record == nil {
		return func() {}
	}
	t := replay.Inputs{At: time.Now(), Config: s.configs[a.profile.Name],
		Selector: a.profile.Handle.SelectorOf(in.Pod).String(), Volumes: replay.VolumeListersOf(in.Plugins)}
	namespaces, err := s.Informers.Core().V1().Namespaces().Lister().List(labels.Everything())
	if err == nil { // from memory it does not fail
		t.Namespaces = namespaces
	}
	if m := s.devices.manager; m != nil {
		t.Devices, err = replay.DevicesFor(in.Pod, m)
		if err != nil {
			klog.Background().Error(err, "The decision is recorded without its devices", "pod", klog.KObj(in.Pod))
		}
	}
	if in.NominatedPodsForNode != nil {
		nominated := map[string][]framework.PodInfo{}
		for _, node := range in.NominatedNodes {
			nominated[node] = in.NominatedPodsForNode(node)
		}
		in.NominatedPodsForNode = func(node string) []framework.PodInfo { return nominated[node] }
	}
	pick := in.PickTie
	in.PickTie = func(n int) int {
		t.Pick = pick(n)
		return t.Pick
	}
	given := *in
	return func() {
		t.Input, t.Result = given, a.fact
		s.Record(replay.Record(t))
	}
}

// recordPreempting writes down who is going to be asked to leave for a Pod.
func (s *Scheduler) recordPreempting(preemptor *v1.Pod, node string, victims []*v1.Pod) {
	f := journal.Preempting{Node: node}
	for _, v := range victims {
		f.Victims = append(f.Victims, pod.Key(v))
	}
	s.Journal.Put(podRef(preemptor), f)
}

// recordPreempted writes down why a Pod had to leave.
func (s *Scheduler) recordPreempted(victim *v1.Pod, why journal.Preempted) {
	s.Journal.Put(podRef(victim), why)
}

// recordPermitWait writes down for whom a Pod waits that has a node and is not bound yet.
func (s *Scheduler) recordPermitWait(c frameworkruntime.PodCycle, w frameworkruntime.PermitWait) {
	f := journal.Waiting{For: "plugin " + w.Plugin + " at Permit, with node " + c.Node + " held", Since: time.Now(),
		Next: "after " + w.Timeout.String() + " the Pod gives the node back and is tried again"}
	if w.Message != "" {
		f.For += ": " + w.Message
	}
	s.Journal.Put(podRef(c.Pod), f)
}
