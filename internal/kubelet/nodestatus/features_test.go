package nodestatus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
)

// What the kubelet does is declared, sorted; what it does not do is not.
func TestDeclaredFeatures(t *testing.T) {
	runTest(t, func(w *testNode) {
		stop := w.start()
		defer stop()
		<-w.r.Ready()
		got := w.node().Status.DeclaredFeatures
		if !slices.IsSorted(got) || !slices.Contains(got, "RestartAllContainersOnContainerExits") ||
			!slices.Contains(got, "InPlacePodVerticalScalingInitContainers") ||
			slices.Contains(got, "DRANodeAllocatableResources") {
			t.Errorf("declared: %v", got)
		}
	})
}

// An external cloud provider finds a tainted node with the address it was given; what the provider
// then says stays.
func TestExternalCloudProvider(t *testing.T) {
	runTest(t, func(w *testNode) {
		w.o.Identity.External = true
		stop := w.start()
		<-w.r.Ready()
		n := w.node()
		if len(n.Spec.Taints) != 1 ||
			n.Spec.Taints[0] != (v1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true",
				Effect: v1.TaintEffectNoSchedule}) {
			t.Errorf("taints %v", n.Spec.Taints)
		}
		if ip := n.Annotations["alpha.kubernetes.io/provided-node-ip"]; ip != "192.0.2.7" {
			t.Errorf("provided address: got %q, want %q", ip, "192.0.2.7")
		}
		if a := n.Status.Addresses; len(a) != 2 || a[0].Address != "192.0.2.7" {
			t.Errorf("addresses before the provider came: %v", a)
		}
		n.Spec.Taints = nil
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"},
			{Type: v1.NodeExternalIP, Address: "198.51.100.1"}}
		if _, err := w.api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute) // a full report comes
		stop()
		stop = w.start() // a restart registers again
		defer stop()
		<-w.r.Ready()
		time.Sleep(6 * time.Minute)
		if n = w.node(); len(n.Spec.Taints) != 0 || len(n.Status.Addresses) != 2 ||
			n.Status.Addresses[1].Address != "198.51.100.1" {
			t.Errorf("taints %v, addresses %v", n.Spec.Taints, n.Status.Addresses)
		}
	})
}

func TestRuntimeHandlers(t *testing.T) {
	runTest(t, func(w *testNode) {
		stop := w.start()
		defer stop()
		<-w.r.Ready()
		s := w.node().Status
		if s.Features == nil || s.Features.SupplementalGroupsPolicy == nil {
			t.Errorf("features: got %+v, want one that is set and SupplementalGroupsPolicy set", s.Features)
		}
		var names []string
		for _, h := range s.RuntimeHandlers {
			names = append(names, h.Name)
			if h.Features == nil || h.Features.UserNamespaces == nil || h.Features.RecursiveReadOnlyMounts == nil {
				t.Errorf("%s: got %+v, want set RecursiveReadOnlyMounts", h.Name, h.Features)
			}
		}
		if len(names) == 0 || !slices.IsSorted(names) {
			t.Errorf("handlers %s", strings.Join(names, " "))
		}
	})
}

// Of each handler the runtime's own word is told: what it cannot do is false.
//
// row: UNS-17
func TestWhatEachHandlerCanDo(t *testing.T) {
	handler := func(name string, userns, rro bool) *runtimeapi.RuntimeHandler {
		return &runtimeapi.RuntimeHandler{Name: name,
			Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: userns, RecursiveReadOnlyMounts: rro}}
	}
	s := nodestatus.Apply(v1.NodeStatus{RuntimeHandlers: []v1.NodeRuntimeHandler{{Name: "gone"}}}, nodestatus.Facts{
		Now: time.Unix(1000, 0), Runtime: &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{},
			RuntimeHandlers: []*runtimeapi.RuntimeHandler{handler("runc", true, false), handler("", false, true),
				handler("kata", false, false), {Name: "old"}}}})
	var got []string
	for _, h := range s.RuntimeHandlers {
		got = append(got, fmt.Sprint(h.Name, " ", *h.Features.UserNamespaces, " ", *h.Features.RecursiveReadOnlyMounts))
	}
	want := []string{" false true", "kata false false", "old false false", "runc true false"}
	if !slices.Equal(got, want) {
		t.Errorf("handlers with user namespaces and recursive read-only mounts: got %q, want %q", got, want)
	}
}

// Each of the three conditions is written of its own pressure.
//
// row: EVC-31
// row: EVC-32
func TestPressuresAreSeparate(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		p    nodestatus.Pressure
		want string
	}{
		{nodestatus.Pressure{}, ""}, {nodestatus.Pressure{Memory: true}, "MemoryPressure"},
		{nodestatus.Pressure{Disk: true}, "DiskPressure"},
		{nodestatus.Pressure{PID: true}, "PIDPressure"}, {nodestatus.Pressure{Memory: true, Disk: true, PID: true},
			"MemoryPressure DiskPressure PIDPressure"},
	} {
		var on []string
		for _, c := range nodestatus.Apply(v1.NodeStatus{}, nodestatus.Facts{Now: now, Pressure: tc.p}).Conditions {
			if c.Type != v1.NodeReady && c.Status == v1.ConditionTrue {
				on = append(on, string(c.Type))
			}
		}
		if got := strings.Join(on, " "); got != tc.want {
			t.Errorf("%+v gives %q, want %q", tc.p, got, tc.want)
		}
	}
}
