package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

// gpuPod asks for GPUs with a priority; on a node, or with one in view.
func gpuPod(name string, gpus, priority int, node string, set ...func(*corev1.Pod)) *corev1.Pod {
	p := wrappers.MakePod().Namespace("shop").Name(name).Obj()
	n := int32(priority)
	p.Spec.Priority, p.Spec.NodeName = &n, node
	p.Spec.Containers = []corev1.Container{{Name: "a"}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"gpu": resource.MustParse(fmt.Sprint(gpus))}
	for _, f := range set {
		f(p)
	}
	return p
}

// A refusal for want of room names who has it, largest first, and why none of it is taken.
func TestARefusalNamesWhoHasTheRoom(t *testing.T) {
	at := metav1.NewTime(time.Unix(0, 0))
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &at }
	nominated := func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }
	done := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	never := func(p *corev1.Pod) { x := corev1.PreemptNever; p.Spec.PreemptionPolicy = &x }
	for _, c := range []struct {
		name   string
		pod    *corev1.Pod
		others []*corev1.Pod
		want   string // after the refusal's own words
		who    string
	}{
		{"equal priority", gpuPod("web", 2, 5, ""), []*corev1.Pod{gpuPod("b", 1, 5, "n1"), gpuPod("a", 3, 5, "n1")},
			" Of its gpu, a has 3, b has 1. None of them is below this Pod's priority 5, so none is preempted for " +
				"it.", "a b"},
		{"those below have too little", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 3, 9, "n1"),
			gpuPod("b", 1, 1, "n1")}, " Of its gpu, a has 3 (priority 9), b has 1 (priority 1). Pods below this " +
			"Pod's priority 5 have 1 of it: " +
			"without them it would still lack 3, so none is preempted.", "a b"},
		{"those below have enough", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 4, 1, "n1")},
			" Of its gpu, a has 4 (priority 1).", "a"},
		{"never preempts", gpuPod("web", 4, 5, "", never), []*corev1.Pod{gpuPod("a", 4, 9, "n1")}, " Of its gpu, a " +
			"has 4 (priority 9).",
			"a"},
		{"ends", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 4, 9, "n1", ending)},
			" Of its gpu, a has 4 (priority 9) and is ending.", "a"},
		{"kept for another", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 4, 9, "", nominated)},
			" Of its gpu, 4 is kept for a (priority 9), which is nominated to the node.", "a"},
		{"nominated, and of less " +
			"priority", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 4, 1, "", nominated)}, "", ""},
		{"elsewhere, and ended", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 4, 9, "n2"),
			gpuPod("b", 4, 9, "n1", done)}, "", ""},
		{"many", gpuPod("web", 4, 5, ""), []*corev1.Pod{gpuPod("a", 1, 9, "n1"), gpuPod("b", 1, 9, "n1"),
			gpuPod("c", 1, 9, "n1"), gpuPod("d", 1, 9, "n1")}, " Of its gpu, a has 1 (priority 9), b has 1 " +
			"(priority 9), c has 1 (priority 9), and 1 more Pods.",
			"a b c"},
		{"no room even when empty", gpuPod("web", 9, 5, ""), []*corev1.Pod{gpuPod("a", 4, 5, "n1")}, "", ""},
	} {
		in := In{Ref: journal.Ref{Namespace: "shop", Name: "web"}, Pod: c.pod,
			ClusterContext: &ClusterContext{Pods: c.others}}
		r := journal.NodeRefusal{Node: "n1", Plugin: "NodeResourcesFit", Shortages: []journal.Shortage{{Resource: "gpu",
			Requested: requestOf(c.pod, "gpu"), Used: 4, Available: 4}}}
		list := refusalFindings(in, []journal.NodeRefusal{r})
		own := refusalText(r, in) + "."
		if got := strings.TrimPrefix(list[0].Message, own); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		var who []string
		for _, o := range list[0].Related {
			if o.Kind == "Pod" {
				who = append(who, o.Name)
			}
		}
		if got := strings.Join(who, " "); got != c.who {
			t.Errorf("%s: got holders %q, want %q", c.name, got, c.who)
		}
	}
}

// A class that never preempts is blamed where there would be room without Pods of less priority.
func TestAClassThatNeverPreemptsIsBlamed(t *testing.T) {
	in := In{Ref: journal.Ref{Namespace: "shop", Name: "web"}, Pod: gpuPod("web", 4, 5, "")}
	v := whatif.Victims{Node: "n1", Pods: []*corev1.Pod{gpuPod("a", 4, 1, "n1")}}
	f := neverPreempts(in, v)
	if f.Object.String() != "pod/web -n shop" || f.Field != "spec.preemptionPolicy" || len(f.Remedies) != 0 {
		t.Errorf("got %+v, want the Pod's spec.preemptionPolicy without remedies", f)
	}
	in.Pod.Spec.PriorityClassName = "quiet"
	f = neverPreempts(in, v)
	if f.Object.String() != "priorityclass/quiet" || f.Value != "Never" || f.Want != "PreemptLowerPriority" ||
		!strings.Contains(f.Message, "Without a (priority 1) there would be room on n1") {
		t.Errorf("got %+v, want class quiet, which says Never, and Pod a on n1", f)
	}
	if len(f.Remedies) != 1 || !strings.Contains(f.Remedies[0].Run[0], "PreemptLowerPriority") {
		t.Errorf("got remedies %v, want the class made anew", f.Remedies)
	}
}

// A Pod that waits for its victim says how long that may take; more than a minute is a threat.
func TestAPodWaitsForItsVictim(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		left time.Duration
		want finding.Severity
	}{{90 * time.Second, finding.Threat}, {20 * time.Second, finding.Note}} {
		victim := gpuPod("a", 4, 1, "n1", func(p *corev1.Pod) {
			end, grace := metav1.NewTime(at.Add(c.left)), int64(300)
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &end, &grace
		})
		waits := gpuPod("web", 4, 5, "", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
		in := In{Now: at, Ref: journal.Ref{Namespace: "shop", Name: "web"}, Pod: waits,
			ClusterContext: &ClusterContext{Pods: []*corev1.Pod{victim}}}
		a := Answer{}
		nominated(&a, in)
		if len(a.Findings) != 1 {
			t.Fatalf("got findings %v, want one", a.Findings)
		}
		f := a.Findings[0]
		if f.Code != "WaitsForVictim" || f.Object.Name != "a" || f.Value != "300" ||
			f.Numbers["left"] != c.left.String() || f.Severity != c.want {
			t.Errorf("got %+v, want WaitsForVictim of a, 300 s, %s left, severity %v", f, c.left, c.want)
		}
	}
}

// What holds one member of a gang holds all: a member's gate is told of another.
func TestAGangTellsWhatHoldsItsMembers(t *testing.T) {
	gate := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }
	in := In{Ref: journal.Ref{Namespace: "shop", Name: "web"}, Pod: gpuPod("web", 1, 0, "")}
	got := heldMembers(in, []*corev1.Pod{in.Pod, gpuPod("b", 1, 0, "", gate), gpuPod("c", 1, 0, "n1", gate)})
	if len(got) != 1 || got[0].Object.Name != "b" || got[0].Value != "example.com/quota" {
		t.Errorf("got %+v, want the gate of b alone", got)
	}
}

// A claim that no node serves blames its own word: all devices, a constraint, or an expression,
// with what the devices have.
func TestAClaimsOwnWordIsBlamed(t *testing.T) {
	attribute, node := resourcev1.FullyQualifiedName("gpu.example.com/numa"), "n1"
	numa := func(n int64) map[resourcev1.QualifiedName]resourcev1.DeviceAttribute {
		return map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"numa": {IntValue: &n}}
	}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		NodeName: &node, Driver: "gpu.example.com", Devices: []resourcev1.Device{{Name: "one", Attributes: numa(0),
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
				"memory": {Value: resource.MustParse("16Gi")}}},
			{Name: "two", Attributes: numa(1)}}}}
	for _, c := range []struct {
		name, detail string
		set          func(*resourcev1.ResourceClaimSpec)
		field, value string
		numbers      []string
	}{
		{"all", "asks for 2 of device class gpu: 2 of 2 devices of this node match, 1 taken", func(
			s *resourcev1.ResourceClaimSpec) {
			s.Devices.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
		}, "spec.devices.requests[0].exactly.allocationMode", "All", nil},
		{"alike", "asks for 2 of device class gpu: 2 of 2 devices of this node match, 0 taken", func(
			s *resourcev1.ResourceClaimSpec) {
			s.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}}
		}, "spec.devices.constraints[0].matchAttribute", "gpu.example.com/numa", []string{"one.numa=0", "two.numa=1"}},
		{"different", "asks for 2 of device class gpu: 2 of 2 devices of this node match, 0 taken", func(
			s *resourcev1.ResourceClaimSpec) {
			s.Devices.Constraints = []resourcev1.DeviceConstraint{{DistinctAttribute: &attribute}}
		}, "spec.devices.constraints[0].distinctAttribute", "gpu.example.com/numa", []string{"one.numa=0"}},
		{"too many", "asks for 3 of device class gpu: 2 of 2 devices of this node match, 0 taken", func(
			s *resourcev1.ResourceClaimSpec) {
			s.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}}
		}, "spec.devices.requests[0].exactly.count", "3", nil},
		{"expression", "asks for 1 of device class gpu: none of the 2 devices of this node matches", func(
			s *resourcev1.ResourceClaimSpec) {
			s.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0"}}}
		}, "spec.devices.requests[0].exactly.selectors[0].cel.expression",
			"device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0", []string{"one.memory=16Gi"}},
	} {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "d", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "gpu"}}}
		c.set(&claim.Spec)
		in := In{Ref: journal.Ref{Namespace: "shop", Name: "web"}, Pod: gpuPod("web", 0, 0, "")}
		in.Objects = &finding.Cluster{Objects: map[string][]metav1.Object{"ResourceClaim": {claim},
			"ResourceSlice": {slice}}}
		r := deviceRequest(in, journal.NodeRefusal{Node: node, Detail: "claim shop/c, request d " +
			"" + c.detail}, refusalField{})
		if r.object.Name != "c" || r.field != c.field || r.value != c.value {
			t.Errorf("%s: got %s %s=%q, want c %s=%q", c.name, r.object.Name, r.field, r.value, c.field, c.value)
		}
		for _, want := range c.numbers {
			name, value, _ := strings.Cut(want, "=")
			if r.numbers[name] != value {
				t.Errorf("%s: got numbers %v, want %s", c.name, r.numbers, want)
			}
		}
		if len(c.numbers) == 0 && slices.ContainsFunc([]string{"one.numa", "one.memory"}, func(n string) bool {
			return r.numbers[n] != ""
		}) {
			t.Errorf("%s: got numbers %v, want nothing of the devices", c.name, r.numbers)
		}
	}
}
