package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

// eventPlugins are the plugins that register for events, made without objects around them.
func eventPlugins(t *testing.T) (out []framework.EnqueueExtensions) {
	t.Helper()
	for _, r := range plugins.InTree {
		if r.New == nil {
			continue
		}
		if pl, ok := pluginOf(t, r).(framework.EnqueueExtensions); ok {
			out = append(out, pl)
		}
	}
	return append(out, gangscheduling.New(nil))
}

func pluginOf(t *testing.T, r plugins.Registration) framework.Plugin {
	t.Helper()
	pl, err := r.New(t.Context(), argsOf(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	return pl
}

// What wakes the Pods that a plugin refused, and what its hint makes of an object that is of no
// kind it knows: a Pod about which it cannot decide is tried again.
func TestEventsOfAllPlugins(t *testing.T) {
	want := eventLines
	p := newPod("p", requests("cpu=1"), hostPort(80), mounts("data"), inGroup("g"), spread(1, "zone", v1.DoNotSchedule))
	for _, pl := range eventPlugins(t) {
		events, err := pl.EventsToRegister(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			got := fmt.Sprintf("%s: %s %s", pl.Name(), e.Event.Resource, actions(e.Event.ActionType))
			if e.QueueingHintFn != nil {
				h, err := e.QueueingHintFn(logr.Discard(), p, "before", "after")
				got += fmt.Sprintf(": %v, %v", h, err)
			}
			if len(want) == 0 || got != want[0] {
				t.Fatalf("got  %s\nwant %q", got, want)
			}
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("not registered: %q", want)
	}
}

var eventLines = []string{
	"SchedulingGates: TargetPod UpdatePodSchedulingGatesEliminated: Queue, <nil>",
	"NodeUnschedulable: Node Add|UpdateNodeTaint: Queue, <nil>",
	"NodeUnschedulable: TargetPod UpdatePodToleration: Queue, <nil>",
	"NodeName: Node Add: Queue, <nil>",
	"TaintToleration: Node Add|UpdateNodeTaint: Queue, <nil>",
	"TaintToleration: TargetPod UpdatePodToleration: Queue, <nil>",
	"NodeAffinity: Node Add|UpdateNodeLabel: Queue, <nil>",
	"NodePorts: AssignedPod Delete: Queue, <nil>",
	"NodePorts: Node Add",
	"NodeResourcesFit: AssignedPod Delete|UpdatePodScaleDown: Queue, <nil>",
	"NodeResourcesFit: TargetPod UpdatePodScaleDown: Queue, <nil>",
	"NodeResourcesFit: Node Add|UpdateNodeAllocatable: Queue, <nil>",
	"VolumeRestrictions: AssignedPod Delete: Queue, got a string, want a Pod",
	"VolumeRestrictions: Node Add",
	"VolumeRestrictions: PersistentVolumeClaim Update|Add: Queue, got a string, want a claim",
	"NodeVolumeLimits: storage.k8s.io/CSINode Update|Add: Queue, got a string, want a CSINode",
	"NodeVolumeLimits: AssignedPod Delete: Queue, got a string, want a Pod",
	"NodeVolumeLimits: PersistentVolumeClaim Add: Queue, got a string, want a claim",
	"NodeVolumeLimits: storage.k8s.io/VolumeAttachment Delete",
	"NodeVolumeLimits: Node Add",
	"VolumeBinding: storage.k8s.io/StorageClass Update|Add: Queue, got a string, want a class",
	"VolumeBinding: PersistentVolumeClaim Update|Add: Queue, got a string, want a claim",
	"VolumeBinding: PersistentVolume Update|Add",
	"VolumeBinding: Node Add|UpdateNodeLabel",
	"VolumeBinding: storage.k8s.io/CSINode Update|Add: Queue, got a string, want a CSINode",
	"VolumeBinding: storage.k8s.io/CSIDriver Update: Queue, got string and string, want drivers",
	"VolumeBinding: storage.k8s.io/CSIStorageCapacity Update|Add: Queue, got a string, want a capacity",
	"VolumeZone: storage.k8s.io/StorageClass Add: Queue, got a string, want a class",
	"VolumeZone: Node Add|UpdateNodeLabel",
	"VolumeZone: PersistentVolumeClaim Update|Add: Queue, got a string, want a claim",
	"VolumeZone: PersistentVolume Update|Add: Queue, got a string, want a volume",
	"PodTopologySpread: Pod Add|Delete|UpdatePodLabel: QueueSkip, <nil>",
	"PodTopologySpread: Node Add|Delete|UpdateNodeLabel|UpdateNodeTaint: QueueSkip, <nil>",
	"InterPodAffinity: Pod Add|Delete|UpdatePodLabel: QueueSkip, <nil>",
	"InterPodAffinity: Node Add|UpdateNodeLabel: Queue, <nil>",
	"NodeDeclaredFeatures: Node Add|UpdateNodeDeclaredFeature: Queue, got a string, want a node",
	"GangScheduling: UnscheduledPod Add: Queue, string is no Pod",
	"GangScheduling: AssignedPod Add: Queue, string is no Pod",
	"GangScheduling: scheduling.k8s.io/PodGroup Update|Add: Queue, string is no PodGroup",
}

func argsOf(r plugins.Registration) runtime.Object {
	if r.Args == nil {
		return nil
	}
	args := r.Args.New()
	r.Args.Default(args)
	return args
}

// actions prints the parts of an action.
func actions(a framework.ActionType) string {
	var out []string
	if a&framework.Update == framework.Update {
		a, out = a&^framework.Update, []string{"Update"}
	}
	for bit := framework.Add; bit <= framework.All; bit <<= 1 {
		if a&bit != 0 {
			out = append(out, bit.String())
		}
	}
	return strings.Join(out, "|")
}
