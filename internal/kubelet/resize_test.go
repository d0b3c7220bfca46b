package kubelet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/wrappers"
)

// amounts are of CPU and memory.
var amounts = wrappers.CPUAndMemory

func asking(c v1.Container, requests, limits v1.ResourceList) v1.Container {
	c.Resources = v1.ResourceRequirements{Requests: requests, Limits: limits}
	return c
}

// resize changes a container's sizes as the resize subresource does.
func (r *rig) resize(name, container string, requests, limits v1.ResourceList) {
	r.t.Helper()
	p := r.get(name).DeepCopy()
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if c := &list[i]; c.Name == container {
				c.Resources = v1.ResourceRequirements{Requests: requests, Limits: limits}
			}
		}
	}
	r.update(p)
}

func (r *rig) update(p *v1.Pod) {
	r.t.Helper()
	p.Generation++
	if _, err := r.api.CoreV1().Pods("default").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.advance(500 * time.Millisecond)
}

func condition(p *v1.Pod, t v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func (r *rig) wantSize(name, allocated, requests, limits string) {
	r.t.Helper()
	st := r.get(name).Status.ContainerStatuses[0]
	text := func(l v1.ResourceList) string {
		s := l.Cpu().String()
		if m, ok := l[v1.ResourceMemory]; ok {
			s += " " + m.String()
		}
		return s
	}
	if text(st.AllocatedResources) != allocated || text(st.Resources.Requests) != requests ||
		text(st.Resources.Limits) != limits {
		r.t.Errorf("%s: allocated %s, requests %s, limits %s; want %s, %s, %s\n%s", name, text(st.AllocatedResources),
			text(st.Resources.Requests), text(st.Resources.Limits),
			allocated, requests, limits, r.facts.text())
	}
}

// KEP-1287: a change of CPU and a rise of memory reach the running container without a restart.
func TestResizeInPlace(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", asking(scriptContainer("app", runs), amounts("100m", "32Mi"), amounts("200m", "64Mi"))))
		r.resize("web", "app", amounts("300m", "48Mi"), amounts("500m", "96Mi"))
		p := r.phase("web", v1.PodRunning)
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("restarted %d times, want 0", n)
		}
		r.wantSize("web", "300m 48Mi", "300m 48Mi", "500m 96Mi")
		if c := condition(p, v1.PodResizeInProgress); c != nil {
			t.Errorf("still %+v, want nil", c)
		}
		for _, want := range []string{
			`ResizeStarted: Pod resize started: {"containers":[{"name":"app","resources":{"limits":{"cpu":"500m",` +
				`"memory":"96Mi"},"requests":{"cpu":"300m","memory":"48Mi"}}}],"generation":2}`,
			`ResizeCompleted: Pod resize completed: {"containers":[{"name":"app","resources":{"limits":{"cpu":"500m",` +
				`"memory":"96Mi"},"requests":{"cpu":"300m","memory":"48Mi"}}}],"generation":2}`,
		} {
			if r.events.count(want) != 1 {
				t.Errorf("no event %s in\n%s", want, r.events.text())
			}
		}
		if n := r.fake.Count("UpdateContainerResources"); n != 1 {
			t.Errorf("%d updates, want 1", n)
		}
		if got := r.groups.log("poduid-web"); !strings.HasSuffix(got, "memory=100663296 quota=50000") {
			t.Errorf("cgroup of the Pod: got %s, want it to end with %q", got, "memory=100663296 quota=50000")
		}
		r.advance(time.Minute)
		if n := r.fake.Count("UpdateContainerResources"); n != 1 {
			t.Errorf("%d updates of a settled Pod, want 1", n)
		}
	})
}

// A running init container gets its new size as it runs; it is not started again for it, whatever
// its policy says (InPlacePodVerticalScalingInitContainers).
func TestResizeOfARunningInitContainer(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("web", scriptContainer("app", runs))
		init := asking(scriptContainer("setup", runs), amounts("100m", "32Mi"), amounts("200m", "64Mi"))
		init.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU,
			RestartPolicy: v1.RestartContainer}}
		p.Spec.InitContainers = []v1.Container{init}
		r.create(p)
		r.resize("web", "setup", amounts("300m", "48Mi"), amounts("500m", "96Mi"))
		got := r.get("web")
		st := got.Status.InitContainerStatuses[0]
		if st.State.Running == nil || st.RestartCount != 0 {
			t.Errorf("got state %+v, restarted %d times, want it running as before", st.State, st.RestartCount)
		}
		if st.Resources == nil || st.Resources.Limits.Cpu().String() != "500m" ||
			st.AllocatedResources.Memory().String() != "48Mi" {
			t.Errorf("got %+v, allocated %v, want limit 500m and allocated 48Mi\n%s", st.Resources,
				st.AllocatedResources, r.facts.text())
		}
		if c := condition(got, v1.PodResizeInProgress); c != nil {
			t.Errorf("got %+v, want no resize in progress", c)
		}
		if n := r.fake.Count("UpdateContainerResources"); n != 1 {
			t.Errorf("got %d updates, want 1", n)
		}
	})
}

// The cgroup of the Pod is never narrower than what its containers may use.
func TestResizeNarrowsThePodLast(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", asking(scriptContainer("app", runs), amounts("100m", "32Mi"), amounts("500m", "96Mi"))))
		r.groups.forget()
		r.resize("web", "app", amounts("100m", "32Mi"), amounts("200m", "64Mi"))
		if got, want := r.groups.log("poduid-web"), "memory=100663296 quota=50000; memory=67108864 quota=20000"; got !=
			want {
			t.Errorf("cgroup of the Pod: %s, want %s", got, want)
		}
	})
}

func TestResizeThatNeedsARestart(t *testing.T) {
	runTest(t, func(r *rig) {
		c := asking(scriptContainer("app", runs), amounts("100m", "32Mi"), amounts("200m", "64Mi"))
		c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory,
			RestartPolicy: v1.RestartContainer}}
		r.create(pod("web", c))
		r.resize("web", "app", amounts("300m", "32Mi"), amounts("300m", "64Mi"))
		if n := r.get("web").Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("a change of CPU restarted it: got %v, want 0", n)
		}
		r.resize("web", "app", amounts("300m", "48Mi"), amounts("300m", "96Mi"))
		r.advance(3 * time.Second)
		p := r.phase("web", v1.PodRunning)
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 {
			t.Errorf("restarted %d times\n%s", n, r.facts.text())
		}
		r.wantSize("web", "300m 48Mi", "300m 48Mi", "300m 96Mi")
		if r.events.count("Killing: Container app resize requires restart") != 1 ||
			r.events.count("ResizeCompleted") != 2 || condition(p, v1.PodResizeInProgress) != nil {
			t.Errorf(`got %v, want 1 times "Killing: Container app resize requires restart", 2 times ResizeCompleted `+
				`and no condition`, r.events.text())
		}
	})
}

// A memory limit is not lowered below what is in use (the fake's containers use 8 MiB); the size
// stays and the condition says why.
func TestResizeBelowUse(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", asking(scriptContainer("app", runs), amounts("", "16Mi"), amounts("", "96Mi"))))
		r.resize("web", "app", amounts("", "4Mi"), amounts("", "6Mi"))
		c := condition(r.get("web"), v1.PodResizeInProgress)
		const why = `cannot decrease memory limits: attempting to set container "app" memory limit (6291456) below ` +
			`current usage (8388608)`
		if c == nil || c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonError || c.Message != why ||
			c.ObservedGeneration != 2 {
			t.Fatalf("got %+v, want Status ConditionTrue, Reason PodReasonError, Message %v and ObservedGeneration 2",
				c, why)
		}
		r.wantSize("web", "0 4Mi", "0 16Mi", "0 96Mi")
		r.advance(time.Minute)
		if n := r.events.count("Warning ResizeError: Pod resize error: "); n != 1 ||
			r.fake.Count("UpdateContainerResources") != 0 {
			t.Errorf(`got %v, want n 1 and 0 times "UpdateContainerResources"`, r.events.text())
		}
		r.resize("web", "app", amounts("", "16Mi"), amounts("", "32Mi"))
		if c := condition(r.get("web"), v1.PodResizeInProgress); c != nil {
			t.Errorf("still %+v, want nil", c)
		}
		r.wantSize("web", "0 16Mi", "0 16Mi", "0 32Mi")
	})
}

func TestResizeThatTheNodeCannotHold(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("web", asking(scriptContainer("app", runs), amounts("500m", ""), nil)))
		r.resize("web", "app", amounts("3", ""), nil)
		c := condition(r.get("web"), v1.PodResizePending)
		if c == nil || c.Reason != v1.PodReasonDeferred ||
			c.Message != "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000" ||
			c.ObservedGeneration != 2 {
			t.Fatalf("got %+v, want Reason PodReasonDeferred, Message \"Node didn't have enough resource: cpu, "+
				"requested: 3000…\" and ObservedGeneration 2\n%s", c, r.facts.text())
		}
		r.wantSize("web", "500m", "500m", "0")
		if r.events.count("Warning ResizeDeferred: Pod resize OutOfcpu: ") != 1 {
			t.Errorf(`got %v, want 1 times "Warning ResizeDeferred: Pod resize OutOfcpu:"`, r.events.text())
		}
		r.resize("web", "app", amounts("1", ""), nil)
		if c := condition(r.get("web"), v1.PodResizePending); c != nil {
			t.Errorf("still %+v, want nil", c)
		}
		r.wantSize("web", "1", "1", "0")
	})
}

// Deferred resizes are granted when room comes, those of higher priority first, also over a restart
// of the kubelet.
func TestDeferredResizes(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("full", asking(scriptContainer("app", runs), amounts("1", ""), nil)))
		for i, name := range []string{"low", "high"} {
			p := pod(name, asking(scriptContainer("app", runs), amounts("400m", ""), nil))
			prio := int32(i * 100)
			p.Spec.Priority = &prio
			r.create(p)
		}
		r.resize("low", "app", amounts("1300m", ""), nil)
		r.resize("high", "app", amounts("1500m", ""), nil)
		c := condition(r.get("high"), v1.PodResizePending)
		if c == nil || c.Reason != v1.PodReasonDeferred ||
			c.Message != "Node didn't have enough resource: cpu, requested: 1500, used: 1400, capacity: 2000" {
			t.Fatalf("got %+v, want Reason PodReasonDeferred and Message \"Node didn't have enough resource: cpu, "+
				"requested: 1500…\"\n%s", c, r.facts.text())
		}
		if r.events.count("Warning ResizeDeferred: Pod resize OutOfcpu: ") != 2 {
			t.Errorf(`got %v, want 2 times "Warning ResizeDeferred: Pod resize OutOfcpu:"`, r.events.text())
		}
		r.stop()
		r.start()
		r.advance(time.Second)
		r.wantSize("high", "400m", "400m", "0")
		if c := condition(r.get("high"), v1.PodResizePending); c == nil || c.Reason != v1.PodReasonDeferred {
			t.Fatalf("after a restart %+v", c)
		}
		r.delete("full", 1)
		r.advance(5 * time.Second)
		r.wantSize("high", "1500m", "1500m", "0")
		r.wantSize("low", "400m", "400m", "0")
		if c := condition(r.get("low"), v1.PodResizePending); c == nil || c.Reason != v1.PodReasonDeferred {
			t.Errorf("low: got %+v, want one that is set and Reason %v", c, v1.PodReasonDeferred)
		}
		r.resize("high", "app", amounts("500m", ""), nil)
		r.advance(time.Second)
		r.wantSize("low", "1300m", "1300m", "0")
	})
}

// KEP-5419: what the Pod as a whole may use changes in place.
func TestResizeOfThePodAsAWhole(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("web", scriptContainer("a", runs), scriptContainer("b", runs))
		p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts("200m", "64Mi"), Limits: amounts("400m", "128Mi")}
		r.create(p)
		r.groups.forget()
		p = r.get("web").DeepCopy()
		p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts("300m", "64Mi"), Limits: amounts("600m", "256Mi")}
		r.update(p)
		p = r.get("web")
		if got := p.Status.Resources.Limits; !got.Cpu().Equal(resource.MustParse("600m")) ||
			!got.Memory().Equal(resource.MustParse("256Mi")) {
			t.Errorf("got %v, want cpu %v and memory %v\n%s", got, resource.MustParse("600m"),
				resource.MustParse("256Mi"), r.facts.text())
		}
		if got := p.Status.AllocatedResources; !got.Cpu().Equal(resource.MustParse("300m")) {
			t.Errorf("allocated %v", got)
		}
		if got := r.groups.log("poduid-web"); !strings.HasSuffix(got, "memory=268435456 quota=60000") {
			t.Errorf(`got %v, want it ending in "memory=268435456 quota=60000"`, got)
		}
		if r.events.count("ResizeCompleted") != 1 || condition(p, v1.PodResizeInProgress) != nil {
			t.Errorf("got %v, want 1 times ResizeCompleted and no condition", r.events.text())
		}
	})
}

// A critical Pod that has no room ends another; that one says so in events and status, and the
// critical one begins when it is at rest.
func TestCriticalPodMakesRoom(t *testing.T) {
	runTest(t, func(r *rig) {
		for _, name := range []string{"low", "low2"} {
			r.create(pod(name, asking(scriptContainer("c", runs), amounts("900m", ""), nil)))
		}
		crit := pod("crit", asking(scriptContainer("c", runs), amounts("600m", ""), nil))
		prio := int32(2000001000)
		crit.Spec.Priority = &prio
		r.create(crit)
		r.advance(3 * time.Second)
		r.phase("crit", v1.PodRunning)
		r.phase("low2", v1.PodRunning)
		p := r.phase("low", v1.PodSucceeded)
		c := condition(p, v1.DisruptionTarget)
		if c == nil || c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonTerminationByKubelet ||
			c.Message != "Pod was preempted by Kubelet to accommodate a critical pod." {
			t.Errorf(`got %+v, want Status ConditionTrue, Reason PodReasonTerminationByKubelet and Message "Pod was `+
				`preempted by Kubelet to accommodate a critical pod."`, c)
		}
		if r.events.count("low  Warning Preempting: Preempted in order to admit critical pod") != 1 {
			t.Errorf(`got %v, want 1 times "low  Warning Preempting: Preempted in order to admit c…"`, r.events.text())
		}
	})
}
