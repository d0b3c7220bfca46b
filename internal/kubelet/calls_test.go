package kubelet_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
)

// allCalls are the RPCs that a kubelet may put to a runtime.
var allCalls = []string{
	"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
	"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ContainerStatus", "ListContainers",
	"UpdateContainerResources",
	"ListImages", "ImageStatus", "PullImage", "RemoveImage", "ImageFsInfo",
	"Status", "Version", "RuntimeConfig", "ListContainerStats", "ContainerStats", "ListPodSandboxStats",
	"PodSandboxStats", "ExecSync", "GetContainerEvents",
}

// counts is how often the runtime was asked for what since the counts before, but for lists and
// containers' states, whose number depends on how events meet.
func (r *rig) counts(before map[string]int) (since string, now map[string]int) {
	now = map[string]int{}
	var out []string
	for _, m := range allCalls {
		now[m] = r.fake.Count(m)
		if n := now[m] - before[m]; n > 0 && !strings.HasPrefix(m, "List") && m != "ContainerStatus" {
			out = append(out, fmt.Sprintf("%s %d", m, n))
		}
	}
	return strings.Join(out, ", "), now
}

// The calls to the runtime over a Pod's lifecycle: each action once, and a relist, which is a list
// of sandboxes and one of containers, after each action and each event of the runtime. At rest
// nobody asks but the audit, once a minute, however many Pods there are.
//
// row: CRI-03, CRI-05
func TestCallsToTheRuntime(t *testing.T) {
	runTest(t, func(r *rig) {
		r.advance(10 * time.Second)
		_, n := r.counts(nil)
		step := func(what string, lists, states int, want string) {
			t.Helper()
			if got := r.fake.Count("ContainerStatus") - n["ContainerStatus"]; got > states {
				t.Errorf("%s: %d states of containers, want %d at most", what, got, states)
			}
			boxes, containers := r.fake.Count("ListPodSandbox")-n["ListPodSandbox"],
				r.fake.Count("ListContainers")-n["ListContainers"]
			got, now := r.counts(n)
			n = now
			if boxes > lists || boxes != containers {
				t.Errorf("%s: %d lists of sandboxes, %d of containers, want %d of each at most", what, boxes,
					containers, lists)
			}
			if got != want {
				t.Errorf("%s: %s\nwant %s", what, got, want)
			}
		}
		r.create(pod("a", scriptContainer("app", runs)))
		step("a start", 7, 2, "RunPodSandbox 1, PodSandboxStatus 1, CreateContainer 1, StartContainer 1, ImageStatus 1")
		two := pod("b", scriptContainer("one", runs), scriptContainer("two", runs))
		two.Spec.InitContainers = []v1.Container{scriptContainer("init", "exit 0")}
		r.create(two)
		r.advance(time.Second)
		step("two containers and an init container", 14, 7,
			"RunPodSandbox 1, PodSandboxStatus 1, CreateContainer 3, StartContainer 3, ImageStatus 3")
		for k := range 20 {
			r.create(pod(fmt.Sprint("more-", k), scriptContainer("app", runs)))
		}
		r.advance(time.Minute)
		_, n = r.counts(n)
		r.advance(10 * time.Minute)
		step("ten minutes of 22 Pods", 10, 0, "")
		r.delete("a", 30)
		r.advance(40 * time.Second)
		step("a stop", 12, 2, "StopPodSandbox 2, RemovePodSandbox 1, StopContainer 1, RemoveContainer 1")
	})
}

// A node whose Pods are settled leaves the runtime alone but for the audit, once a minute: one list
// of sandboxes and one of containers, the runtime's state, its images. Every five minutes the
// collection of images looks too.
//
// row: KSL-31
func TestNoRuntimeCallsBetweenRelists(t *testing.T) {
	runTest(t, func(r *rig) {
		r.stop()
		r.with = func(o *kubelet.Options) {
			o.Dependencies.Disk = func(string) (images.Disk, error) {
				return images.Disk{Capacity: 100, Available: 90}, nil
			}
		}
		r.start()
		report, err := nodestatus.New(nodestatus.Options{
			Client: r.api, Register: true,
			Identity: nodestatus.Identity{Name: "n1",
				Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}}},
			Machine: nodestatus.Machine{CPUs: 2, MemoryBytes: 4 << 30, EphemeralBytes: 100 << 30},
			Sources: nodestatus.Sources{Runtime: r.cri.ProbeRuntime(), Images: r.cri.Images(),
				RuntimeSuspect: r.cri.Signals().RuntimeSuspect, ImagesChanged: r.cri.Signals().ImagesChanged},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- report.Run(ctx) }()
		defer func() {
			cancel()
			_ = <-done
		}()
		<-report.Ready()
		for k := range 20 {
			r.create(pod(fmt.Sprint("a-", k), scriptContainer("app", runs)))
		}
		r.advance(2 * time.Minute)
		all := func() map[string]int {
			now := map[string]int{}
			for _, m := range allCalls {
				now[m] = r.fake.Count(m)
			}
			return now
		}
		begin, busy := all(), 0
		before := begin
		for range 20 * 60 {
			r.advance(time.Second)
			if now := all(); !maps.Equal(now, before) {
				before, busy = now, busy+1
			}
		}
		made := map[string]int{}
		for m, n := range before {
			if n -= begin[m]; n > 0 {
				made[m] = n
			}
		}
		want := map[string]int{"ListPodSandbox": 20, "ListContainers": 20 + 4, "Status": 20, "ListImages": 20 + 4,
			"ImageFsInfo": 4}
		if !maps.Equal(made, want) {
			t.Errorf("in twenty minutes at rest the runtime was asked %v, want %v", made, want)
		}
		if most := 20 + 20 + 4; busy > most {
			t.Errorf("it was asked at %d moments, want %d at most", busy, most)
		}
	})
}

// One Pod that is pulled for, asked by a probe, made smaller and taken away needs every request
// there is, but for those that people's streams are carried by (TestExec, TestAttach and
// TestPortForward of serve) and those that the node's status is made of.
//
// row: CRI-03
func TestEveryCallIsMade(t *testing.T) {
	runTest(t, func(r *rig) {
		r.stop()
		r.with = func(o *kubelet.Options) {
			o.Config.ImageMaximumGCAge = metav1.Duration{Duration: 10 * time.Minute}
			o.Dependencies.Disk = func(string) (images.Disk, error) {
				return images.Disk{Capacity: 100, Available: 90}, nil
			}
		}
		r.start()
		r.fake.SetRegistry([]crifake.Image{{Names: []string{"fresh:1"}}})
		app := asking(scriptContainer("app", runs), nil, amounts("", "64Mi"))
		app.Image = "fresh:1"
		app.ReadinessProbe = &v1.Probe{PeriodSeconds: 1,
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		r.create(pod("a", app))
		r.advance(3 * time.Second)
		r.resize("a", "app", amounts("", "32Mi"), amounts("", "32Mi"))
		r.advance(time.Second)
		r.delete("a", 5)
		r.advance(time.Hour)
		for _, m := range []string{
			"Version", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "PodSandboxStatus", "ListPodSandbox",
			"CreateContainer", "StartContainer", "StopContainer", "RemoveContainer",
			"ContainerStatus", "ListContainers", "ContainerStats", "UpdateContainerResources", "ExecSync", "PullImage",
			"ListImages", "ImageStatus", "RemoveImage",
		} {
			if r.fake.Count(m) == 0 {
				t.Errorf("%s was never called", m)
			}
		}
	})
}
