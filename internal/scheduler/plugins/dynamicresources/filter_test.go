package dynamicresources_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/wrappers"
)

const driver = "gpu.example.com"

func class(name string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceClassSpec{
		ExtendedResourceName: new("example.com/" + name),
		Selectors: []resourceapi.DeviceSelector{
			{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["` + driver + `"].kind == "` + name +
				`"`}}},
	}}
}

// slice offers devices of a node, named KIND-NUMBER.
func slice(node string, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: new(node), Pool: resourceapi.ResourcePool{Name: node, Generation: 1,
			ResourceSliceCount: 1},
	}}
	for _, d := range devices {
		kind, _, _ := strings.Cut(d, "-")
		s.Spec.Devices = append(s.Spec.Devices,
			resourceapi.Device{Name: d, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"kind": {StringValue: new(kind)}}})
	}
	return s
}

func tainted(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{
			{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return s
}

func exactly(class string, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: "req", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}}
}

func either(classes ...string) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: "req"}
	for _, c := range classes {
		r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{Name: c, DeviceClassName: c,
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1})
	}
	return r
}

func claim(name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default",
		UID: types.UID(name)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}}}
}

func allocatedTo(c *resourceapi.ResourceClaim, node, device string) *resourceapi.ResourceClaim {
	c.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "req", Driver: driver, Pool: node, Device: device}}},
		NodeSelector: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn,
					Values: []string{node}}}}}},
	}
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "other", UID: "other"}}
	return c
}

func podUsing(claims ...string) *v1.Pod {
	p := wrappers.MakePod().Namespace("default").Name("p").UID("p").Obj()
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: c, ResourceClaimName: new(c)})
	}
	return p
}

func podRequesting(resourceName v1.ResourceName) *v1.Pod {
	p := podUsing()
	p.Spec.Containers = []v1.Container{
		{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{resourceName: resource.MustParse("1")}}}}
	return p
}

func TestFilterStatuses(t *testing.T) {
	two := []runtime.Object{class("gpu"), class("nic"), slice("n1", "gpu-0", "gpu-1"), slice("n2", "nic-0")}
	with := func(more ...runtime.Object) []runtime.Object {
		return append(append([]runtime.Object{}, two...), more...)
	}
	type want struct {
		winner, text, detail, fix string
	}
	for name, c := range map[string]struct {
		pod     *v1.Pod
		objects []runtime.Object
		want    want
	}{
		"free devices": {podUsing("a"), with(claim("a", exactly("gpu", 2))), want{winner: "n1"}},
		"one is taken": {podUsing("a"),
			with(claim("a", exactly("gpu", 2)), allocatedTo(claim("b", exactly("gpu", 1)), "n1", "gpu-0")), want{
				text: "0/2 nodes are available: 2 cannot allocate all claims.",
				detail: "claim default/a, request req asks for 2 of device class gpu: 2 of 2 devices of this node " +
					"match, 1 taken (claim default/b)",
				fix: "free 1 of the devices that are taken"}},
		"more than there are": {podUsing("a"), with(claim("a", exactly("gpu", 3))), want{
			text:   "0/2 nodes are available: 2 cannot allocate all claims.",
			detail: "asks for 3 of device class gpu: 2 of 2 devices of this node match, 0 taken",
			fix:    "ask for at most 2 in request req"}},
		"another kind": {podUsing("a"), with(claim("a", exactly("fpga", 1)), class("fpga")),
			want{text: "2 cannot allocate all claims", detail: "none of the 2 devices of this node matches",
				fix: "change the selectors of request req or of class fpga"}},
		"nothing published": {podUsing("a"),
			[]runtime.Object{class("gpu"), claim("a", exactly("gpu", 1))},
			want{text: "2 cannot allocate all claims", detail: "no ResourceSlice offers devices on this node",
				fix: "install a driver"}},
		"no such class": {podUsing("a"), with(claim("a", exactly("tpu", 1))),
			want{text: "request req: device class tpu does not exist"}},
		"no such claim": {podUsing("a"), two,
			want{text: `could not find v1.ResourceClaim "default/a"`}},
		"the second in a list": {podUsing("a"),
			with(claim("a", either("fpga", "nic")), class("fpga")), want{winner: "n2"}},
		"the first in a list wins over the second": {podUsing("a"), with(claim("a", either("gpu", "nic"))),
			want{winner: "n1"}},
		"devices elsewhere": {podUsing("a"), with(allocatedTo(claim("a", exactly("nic", 1)), "n2", "nic-0"),
			claim("b", exactly("gpu", 1))), want{winner: "n2"}},
		"claims of two nodes": {podUsing("a", "b"), with(allocatedTo(claim("a", exactly("nic", 1)), "n2", "nic-0"),
			allocatedTo(claim("b", exactly("gpu", 1)), "n1", "gpu-0")), want{
			text:   "2 resourceclaim not available on the node",
			detail: "which cannot be reached from this node; it is reserved for pods/other", fix: "end pods/other"}},
		"tainted devices": {podUsing("a"), []runtime.Object{class("gpu"), tainted(slice("n1", "gpu-0")),
			claim("a", exactly("gpu", 1))}, want{text: "2 cannot allocate all claims",
			detail: "1 of 1 devices of this node match, 0 taken, 1 with a taint that the request does not tolerate: ",
			fix:    "give request req a toleration of the devices' taint "}},
		"tainted devices of a list": {podUsing("a"), []runtime.Object{class("gpu"), class("nic"),
			tainted(slice("n1", "gpu-0")), claim("a", either("gpu", "nic"))}, want{text: "2 cannot allocate all claims",
			detail: "request req/", fix: "give request req/"}},
		"an extended resource":   {podRequesting("example.com/gpu"), two, want{winner: "n1"}},
		"the class named itself": {podRequesting("deviceclass.resource.kubernetes.io/nic"), two, want{winner: "n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			pl := dynamicresources.New(nil, dynamicresources.NewFixedManager(c.objects...), nil)
			nodes := []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
				{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}
			r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: c.pod, Snapshot: snapshot.Of(nodes, nil),
				Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})})
			if r.SuggestedHost != c.want.winner || !strings.Contains(r.Message(), c.want.text) {
				t.Fatalf("winner %q, message %q", r.SuggestedHost, r.Message())
			}
			if c.want.detail == "" {
				return
			}
			for _, no := range r.Refusals(2) {
				if strings.Contains(no.Detail, c.want.detail) && strings.Contains(no.Fix, c.want.fix) {
					return
				}
			}
			t.Errorf("no refusal with detail %q and fix %q: %+v", c.want.detail, c.want.fix, r.Refusals(2))
		})
	}
}

func TestWithoutAManagerClaimsAreRefused(t *testing.T) {
	pl := dynamicresources.New(nil, nil, nil)
	if s := pl.PreEnqueue(context.Background(), podUsing("a")); s.Code() != framework.UnschedulableAndUnresolvable ||
		!strings.Contains(s.Message(), "does not serve resource.k8s.io/v1") {
		t.Errorf(`got %v, want s.Code() UnschedulableAndUnresolvable and s.Message() with "does not serve `+
			`resource.k8s.io/v1"`, s)
	}
	if s := pl.PreEnqueue(context.Background(), podUsing()); !s.IsSuccess() {
		t.Errorf("got %v, want s.IsSuccess() true", s)
	}
}

func TestHints(t *testing.T) {
	mine, other := claim("a", exactly("gpu", 1)), claim("b", exactly("gpu", 1))
	pl := dynamicresources.New(nil, dynamicresources.NewFixedManager(mine, other), nil)
	held := allocatedTo(other.DeepCopy(), "n1", "gpu-0")
	for name, c := range map[string]struct {
		pod           *v1.Pod
		before, after any
		want          framework.QueueingHint
	}{
		"another claim gave its devices back":   {podUsing("a"), held, other, framework.Queue},
		"another claim got devices":             {podUsing("a"), other, held, framework.QueueSkip},
		"the Pod's own claim came":              {podUsing("a"), nil, mine, framework.Queue},
		"its status is as before":               {podUsing("a"), mine, mine, framework.QueueSkip},
		"the Pod waits for one that is missing": {podUsing("a", "c"), held, other, framework.QueueSkip},
	} {
		got, err := pl.IsSchedulableAfterClaimChange(logr.Discard(), c.pod, c.before, c.after)
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want no error and %v", name, got, err, c.want)
		}
	}
}
