package scheduler

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// queuedFact is a move of the scheduling queue as the journal states it.
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

// noRecorder is the decisionRecorder of a scheduler without Options.Record.
type noRecorder struct{}

// start implements decisionRecorder.
func (noRecorder) start(*schedulingAttempt, *schedule.Input) (done func()) { return func() {} }

// recorder is the decisionRecorder that hands each decision, with all it was made from, to record.
type recorder struct {
	record     func(*replay.Decision)
	configs    map[string]json.RawMessage // by profile
	namespaces corelisters.NamespaceLister
	devices    *devices
}

// start implements decisionRecorder.
func (r *recorder) start(a *schedulingAttempt, in *schedule.Input) (done func()) {
	t := replay.Inputs{At: time.Now(), Config: r.configs[a.profile.Name],
		Selector: a.profile.Handle.SelectorOf(in.Pod).String(), Volumes: replay.VolumeListersOf(in.Plugins)}
	namespaces, err := r.namespaces.List(labels.Everything())
	if err == nil { // a lister does not fail
		t.Namespaces = namespaces
	}
	if m := r.devices.manager; m != nil {
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
	given.Cache = nil // not part of the decision
	return func() {
		t.Input, t.Result = given, a.fact
		r.record(replay.Record(t))
	}
}
