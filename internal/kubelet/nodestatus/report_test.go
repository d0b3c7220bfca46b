package nodestatus_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
)

// testNode is a Reporter in virtual time over a fake API server and a fake runtime in memory.
type testNode struct {
	*testing.T
	api       *fake.Clientset
	runtime   *crifake.Fake
	cri       *cri.Client
	events    *record.FakeRecorder
	o         nodestatus.Options
	r         *nodestatus.Reporter
	mu        sync.Mutex
	unhealthy error
	pressure  nodestatus.Pressure
}

// runTest runs test in a bubble of virtual time.
func runTest(t *testing.T, test func(w *testNode)) {
	synctest.Test(t, func(t *testing.T) {
		f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), InMemory: true, Images: []crifake.Image{
			{Names: []string{"registry.example/small:1"}, Size: 10},
			{Names: []string{"registry.example/big:1", "registry.example/big:2"}, Size: 1000},
		}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint(), Dialer: f.Dialer()})
		if err != nil {
			t.Fatal(err)
		}
		w := &testNode{T: t, api: fake.NewClientset(), runtime: f, cri: c, events: record.NewFakeRecorder(100)}
		w.o = nodestatus.Options{
			Client: w.api, Register: true, Events: w.events,
			Identity: nodestatus.Identity{Name: "node-1",
				Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.7"}},
				Labels:    map[string]string{"zone": "a"}},
			Machine: nodestatus.Machine{RunningInUserNamespace: new(false),
				CPUs: 2, MemoryBytes: 4 << 30, EphemeralBytes: 100 << 30, HugePages: map[string]int64{"2Mi": 0},
				MachineID: "m", BootID: "boot-1",
				KernelVersion: "6.1", OSImage: "Debian", Architecture: "amd64",
			},
			Sources: nodestatus.Sources{
				Runtime: c.Runtime(), Images: c.Images(), RuntimeSuspect: c.Signals().RuntimeSuspect,
				ImagesChanged: c.Signals().ImagesChanged,
				Allocatable: func(capacity v1.ResourceList) v1.ResourceList {
					capacity[v1.ResourceMemory] = resource.MustParse("3Gi")
					return capacity
				},
				Healthy:  func() error { w.mu.Lock(); defer w.mu.Unlock(); return w.unhealthy },
				Pressure: func() nodestatus.Pressure { w.mu.Lock(); defer w.mu.Unlock(); return w.pressure },
			},
		}
		test(w)
		_ = c.Close()
		f.Close()
	})
}

// start runs the Reporter until the returned function is called.
func (w *testNode) start() (stop func()) {
	w.Helper()
	r, err := nodestatus.New(w.o)
	if err != nil {
		w.Fatal(err)
	}
	w.r = r
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (w *testNode) node() *v1.Node {
	w.Helper()
	n, err := w.api.CoreV1().Nodes().Get(w.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *testNode) condition(kind v1.NodeConditionType) v1.NodeCondition {
	w.Helper()
	for _, c := range w.node().Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	w.Fatalf("no condition %s", kind)
	return v1.NodeCondition{}
}

func (w *testNode) renewed() time.Time {
	w.Helper()
	l, err := w.api.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(w.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return l.Spec.RenewTime.Time
}

// patches counts writes of the status.
func (w *testNode) patches() int {
	n := 0
	for _, a := range w.api.Actions() {
		if a.GetVerb() == "patch" && a.GetResource().Resource == "nodes" {
			n++
		}
	}
	return n
}

// row: KSL-05
func TestRegistration(t *testing.T) {
	runTest(t, func(w *testNode) {
		w.o.Identity.Taints = []v1.Taint{{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}}
		began := time.Now()
		defer w.start()()
		<-w.r.Ready()
		if took := time.Since(began); took > 0 {
			t.Errorf("a node with a ready runtime became Ready after %s", took)
		}
		n := w.node()
		for k, v := range map[string]string{
			"kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "zone": "a",
		} {
			if n.Labels[k] != v {
				t.Errorf("label %s is %q, want %q", k, n.Labels[k], v)
			}
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "dedicated" {
			t.Errorf("taints: got %v, want one of them and [0].Key dedicated", n.Spec.Taints)
		}
		s := n.Status
		for name, want := range map[v1.ResourceName]string{"cpu": "2", "memory": "4Gi", "pods": "110",
			"ephemeral-storage": "100Gi", "hugepages-2Mi": "0"} {
			if q := s.Capacity[name]; q.String() != want {
				t.Errorf("capacity of %s is %s, want %s", name, q.String(), want)
			}
		}
		if q := s.Allocatable[v1.ResourceMemory]; q.String() != "3Gi" {
			t.Errorf("allocatable memory: got %s, want %s", q.String(), "3Gi")
		}
		if got := s.Addresses; len(got) != 2 || got[0].Address != "192.0.2.7" || got[1].Type != v1.NodeHostName ||
			got[1].Address != "node-1" {
			t.Errorf("addresses %v", got)
		}
		if s.NodeInfo.ContainerRuntimeVersion != "containerd://2.4.2-fake" || s.NodeInfo.KubeletVersion != "v1.37.2" ||
			s.NodeInfo.OperatingSystem != "linux" ||
			s.NodeInfo.RunningInUserNamespace == nil || *s.NodeInfo.RunningInUserNamespace {
			t.Errorf("got info %+v, want containerd 2.4.2, v1.37.2, linux, and no user namespace", s.NodeInfo)
		}
		if s.DaemonEndpoints.KubeletEndpoint.Port != 10250 {
			t.Errorf("port: got %d, want 10250", s.DaemonEndpoints.KubeletEndpoint.Port)
		}
		if len(s.Images) != 2 || !slices.Equal(s.Images[0].Names,
			[]string{"registry.example/big:1", "registry.example/big:2"}) {
			t.Errorf("images %v", s.Images)
		}
		if len(s.RuntimeHandlers) != 2 || s.Features == nil || !*s.Features.SupplementalGroupsPolicy {
			t.Errorf("handlers %v features %v", s.RuntimeHandlers, s.Features)
		}
		for kind, want := range map[v1.NodeConditionType]string{
			"MemoryPressure": "False KubeletHasSufficientMemory kubelet has sufficient memory available",
			"DiskPressure":   "False KubeletHasNoDiskPressure kubelet has no disk pressure",
			"PIDPressure":    "False KubeletHasSufficientPID kubelet has sufficient PID available",
			"Ready":          "True KubeletReady kubelet is posting ready status",
		} {
			c := w.condition(kind)
			if got := strings.Join([]string{string(c.Status), c.Reason, c.Message}, " "); got != want {
				t.Errorf("%s: %s, want %s", kind, got, want)
			}
		}
		synctest.Wait()
		events := drainEvents(w.events)
		for _, want := range []string{"Normal Starting Starting kubelet.",
			"Normal NodeReady Node node-1 status is now: NodeReady",
			"Normal NodeHasSufficientMemory Node node-1 status is now: NodeHasSufficientMemory"} {
			if !slices.Contains(events, want) {
				t.Errorf("no event %q in %q", want, events)
			}
		}
	})
}

func drainEvents(r *record.FakeRecorder) (out []string) {
	for {
		select {
		case e := <-r.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// row: KSL-05
func TestRegisterNodeFalseMakesNone(t *testing.T) {
	runTest(t, func(w *testNode) {
		w.o.Register = false
		defer w.start()()
		time.Sleep(time.Minute)
		if _, err := w.api.CoreV1().Nodes().Get(w.Context(), "node-1", metav1.GetOptions{}); !apierrors.IsNotFound(
			err) {
			t.Errorf("a node was made: %v", err)
		}
		if _, err := w.api.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(w.Context(), "node-1",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a lease was made: %v", err)
		}
	})
}

// row: KSL-33
func TestLeaseIsRenewed(t *testing.T) {
	runTest(t, func(w *testNode) {
		stop := w.start()
		<-w.r.Ready()
		time.Sleep(time.Second)
		first := w.renewed()
		time.Sleep(35 * time.Second)
		if moved := w.renewed().Sub(first); moved < 25*time.Second || moved > 35*time.Second {
			t.Errorf("renew time moved by %s in 35 s", moved)
		}
		l, _ := w.api.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(w.Context(), "node-1", metav1.GetOptions{})
		if *l.Spec.HolderIdentity != "node-1" || *l.Spec.LeaseDurationSeconds != 40 || len(l.OwnerReferences) != 1 ||
			l.OwnerReferences[0].Name != "node-1" {
			t.Errorf("lease %+v", l)
		}
		stop()
		last := w.renewed()
		time.Sleep(time.Minute)
		if !w.renewed().Equal(last) {
			t.Error("the lease is renewed by a kubelet that was stopped")
		}
	})
}

// A lease that somebody else wrote meanwhile is read again, and renewed.
//
// row: KSL-33
func TestALeaseThatOthersWroteIsReadAgain(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		time.Sleep(time.Second)
		leases := w.api.CoordinationV1().Leases(v1.NamespaceNodeLease)
		l, err := leases.Get(w.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			w.Fatal(err)
		}
		l.Annotations = map[string]string{"written-by": "somebody"}
		if _, err := leases.Update(w.Context(), l, metav1.UpdateOptions{}); err != nil {
			w.Fatal(err)
		}
		// the fake compares no resourceVersion: whoever does not know the annotation has an old one
		w.api.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
			given, ok := a.(clienttesting.UpdateAction).GetObject().(*coordination.Lease)
			if ok && given.Annotations["written-by"] == "" {
				return true, nil, apierrors.NewConflict(coordination.Resource("leases"), "node-1",
					errors.New("it is old"))
			}
			return false, nil, nil
		})
		first := w.renewed()
		time.Sleep(25 * time.Second)
		if moved := w.renewed().Sub(first); moved < 10*time.Second {
			w.Errorf("renew time moved by %s in 25 s, want 10 s at least", moved)
		}
	})
}

func TestUnchangedStatusIsPostedRarely(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		time.Sleep(4*time.Minute + 55*time.Second)
		if n := w.patches(); n != 0 {
			t.Errorf("%d writes of an unchanged status in under 5 minutes", n)
		}
		before := w.condition(v1.NodeReady).LastHeartbeatTime
		time.Sleep(30 * time.Second)
		if n := w.patches(); n != 1 {
			t.Errorf("%d writes after 5 minutes, want 1", n)
		}
		if after := w.condition(v1.NodeReady).LastHeartbeatTime; !after.After(before.Time) {
			t.Error("the heartbeat did not move")
		}
	})
}

func TestNetworkNotReady(t *testing.T) {
	runTest(t, func(w *testNode) {
		w.runtime.SetNetworkReady(false, "NetworkPluginNotReady",
			"Network plugin returns error: cni plugin not initialized")
		defer w.start()()
		time.Sleep(5 * time.Second)
		c := w.condition(v1.NodeReady)
		const want = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady " +
			"message:Network plugin returns error: cni plugin not initialized"
		if c.Status != v1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != want {
			t.Errorf("got %+v, want Status ConditionFalse, Reason KubeletNotReady and Message %v", c, want)
		}
		writes := w.patches()
		if writes > 2 {
			t.Errorf("%d writes while nothing changed", writes)
		}
		w.runtime.SetNetworkReady(true, "", "")
		began := time.Now()
		<-w.r.Ready()
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("Ready %s after the network was", took)
		}
		since := w.condition(v1.NodeReady).LastTransitionTime
		time.Sleep(6 * time.Minute)
		if c := w.condition(v1.NodeReady); !c.LastTransitionTime.Equal(&since) {
			t.Error("a heartbeat moves the transition time")
		}
	})
}

// A runtime that is restarted does not make the node NotReady; one that is gone does after 30 s.
// row: CRI-19
func TestRuntimeDown(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		w.runtime.Kill()
		time.Sleep(20 * time.Second)
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionTrue {
			t.Errorf("NotReady after 20 s without runtime: %s", c.Message)
		}
		time.Sleep(25 * time.Second)
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionFalse || c.Message != "container runtime is down" {
			t.Errorf("after 45 s without runtime: %+v", c)
		}
		if err := w.runtime.Restart(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionTrue {
			t.Errorf("not Ready again: %s", c.Message)
		}
		synctest.Wait()
		if events := drainEvents(w.events); !slices.Contains(events,
			"Normal NodeNotReady Node node-1 status is now: NodeNotReady") {
			t.Errorf("events %q", events)
		}
	})
}

// Events tell that the node was cordoned and uncordoned, once each, and after a restart that it is.
func TestCordonIsReported(t *testing.T) {
	runTest(t, func(w *testNode) {
		cordon := func(is bool) {
			n := w.node()
			n.Spec.Unschedulable = is
			if _, err := w.api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		stop := w.start()
		<-w.r.Ready()
		cordon(false)
		drainEvents(w.events)
		for _, c := range []struct {
			is   bool
			want string
		}{{true, "NodeNotSchedulable"}, {true, ""}, {false, "NodeSchedulable"}, {true, "NodeNotSchedulable"}} {
			cordon(c.is)
			var want []string
			if c.want != "" {
				want = []string{"Normal " + c.want + " Node node-1 status is now: " + c.want}
			}
			if got := drainEvents(w.events); !slices.Equal(got, want) {
				t.Errorf("cordoned %t: got events %q, want %q", c.is, got, want)
			}
		}
		stop()
		defer w.start()()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := drainEvents(w.events); !slices.Contains(got,
			"Normal NodeNotSchedulable Node node-1 status is now: NodeNotSchedulable") {
			t.Errorf("after a restart: got events %q, want NodeNotSchedulable", got)
		}
	})
}

// A runtime that is well is asked in the audit alone, and its images are listed with it.
func TestHealthyRuntimeIsNotPolled(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		time.Sleep(30 * time.Second)
		status, lists := w.runtime.Count("Status"), w.runtime.Count("ListImages")
		time.Sleep(10 * time.Minute)
		if n := w.runtime.Count("Status") - status; n != 10 {
			t.Errorf("the runtime was asked how it is %d times in ten minutes, want 10", n)
		}
		if n := w.runtime.Count("ListImages") - lists; n != 10 {
			t.Errorf("images were listed %d times in ten minutes, want 10", n)
		}
	})
}

// A runtime that hangs breaks no connection. The audit finds it, or a call before that.
func TestHungRuntime(t *testing.T) {
	for name, c := range map[string]struct {
		call   bool // the kubelet calls the runtime meanwhile
		within time.Duration
	}{"nobody calls": {false, 105 * time.Second}, "a call hangs": {true, 50 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(w *testNode) {
				defer w.start()()
				<-w.r.Ready()
				time.Sleep(time.Minute + time.Second) // an audit has just been
				w.hang("Status", "ListContainers")
				if c.call {
					go func() { _, _ = w.cri.Runtime().ListContainers(w.Context(), nil) }()
				}
				time.Sleep(29 * time.Second)
				if c := w.condition(v1.NodeReady); c.Status != v1.ConditionTrue {
					t.Errorf("NotReady before half a minute was over: %s", c.Message)
				}
				time.Sleep(c.within - 29*time.Second)
				if c := w.condition(v1.NodeReady); c.Status != v1.ConditionFalse ||
					c.Message != "container runtime is down" {
					t.Errorf(`got %+v, want Status ConditionFalse and Message "container runtime is down"`, c)
				}
				w.runtime.Fault("Status", "")         //nolint:errcheck // an empty fault is a fault
				w.runtime.Fault("ListContainers", "") //nolint:errcheck // likewise
				time.Sleep(11 * time.Second)
				if c := w.condition(v1.NodeReady); c.Status != v1.ConditionTrue {
					t.Errorf("not Ready again: %s", c.Message)
				}
			})
		})
	}
}

func (w *testNode) hang(methods ...string) {
	w.Helper()
	for _, m := range methods {
		if err := w.runtime.Fault(m, "hang"); err != nil {
			w.Fatal(err)
		}
	}
}

// The loss of the network is reported at the first sandbox that cannot be created, and one that
// comes back is seen soon.
func TestNetworkLost(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		time.Sleep(20 * time.Second)
		w.runtime.SetNetworkReady(false, "NetworkPluginNotReady", "no network config found in /etc/cni/net.d")
		_, err := w.cri.Runtime().RunPodSandbox(w.Context(),
			&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "a", Namespace: "default",
				Uid: "a"}}, "no such handler")
		if err == nil {
			t.Fatal("the sandbox was made")
		}
		time.Sleep(time.Second)
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionFalse || !strings.Contains(c.Message,
			"NetworkPluginNotReady") {
			t.Errorf("got %+v, want Status ConditionFalse and Message with NetworkPluginNotReady", c)
		}
		w.runtime.SetNetworkReady(true, "", "")
		time.Sleep(6 * time.Second)
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionTrue {
			t.Errorf("not Ready again: %s", c.Message)
		}
	})
}

// Images that the kubelet brings or removes are in the status at the next round, others after the
// audit.
func TestImagesInTheStatus(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		time.Sleep(2 * time.Second)
		has := func(name string) bool {
			return slices.ContainsFunc(w.node().Status.Images,
				func(i v1.ContainerImage) bool { return slices.Contains(i.Names, name) })
		}
		if _, err := w.cri.Images().PullImage(w.Context(), &runtimeapi.ImageSpec{Image: "registry.example/pulled:1"},
			nil, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if !has("registry.example/pulled:1") {
			t.Error("a pulled image is not in the status")
		}
		if err := w.cri.Images().RemoveImage(w.Context(),
			&runtimeapi.ImageSpec{Image: "registry.example/small:1"}); err != nil {
			t.Fatal(err)
		}
		w.runtime.AddImage(crifake.Image{Names: []string{"registry.example/imported:1"}})
		time.Sleep(11 * time.Second)
		if has("registry.example/small:1") {
			t.Error("a removed image is still in the status")
		}
		w.runtime.AddImage(crifake.Image{Names: []string{"registry.example/late:1"}})
		time.Sleep(time.Minute + 11*time.Second)
		if !has("registry.example/late:1") {
			t.Error("an image that somebody else brought is not in the status")
		}
	})
}

func TestPressureIsPostedAtOnce(t *testing.T) {
	runTest(t, func(w *testNode) {
		defer w.start()()
		<-w.r.Ready()
		w.mu.Lock()
		w.pressure.Memory, w.unhealthy = true, errors.New("PLEG is not healthy")
		w.mu.Unlock()
		w.r.Trigger()
		time.Sleep(time.Millisecond)
		if c := w.condition(v1.NodeMemoryPressure); c.Status != v1.ConditionTrue ||
			c.Reason != "KubeletHasInsufficientMemory" {
			t.Errorf(`got %+v, want Status ConditionTrue and Reason "KubeletHasInsufficientMemory"`, c)
		}
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionFalse || c.Message != "PLEG is not healthy" {
			t.Errorf(`got %+v, want Status ConditionFalse and Message "PLEG is not healthy"`, c)
		}
	})
}

func TestRestartReconciles(t *testing.T) {
	runTest(t, func(w *testNode) {
		_, err := w.api.CoreV1().Nodes().Create(w.Context(), &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "old",
				Labels: map[string]string{"by": "admin", "zone": "b"}},
			Spec: v1.NodeSpec{Unschedulable: true, Taints: []v1.Taint{{Key: "kept", Effect: v1.TaintEffectNoExecute}}},
			Status: v1.NodeStatus{
				NodeInfo:    v1.NodeSystemInfo{BootID: "boot-0"},
				Capacity:    v1.ResourceList{"example.com/widget": resource.MustParse("3")},
				Allocatable: v1.ResourceList{"example.com/widget": resource.MustParse("3")},
				Conditions: []v1.NodeCondition{{Type: "NetworkUnavailable", Status: v1.ConditionFalse,
					Reason: "RouteCreated"}, {Type: v1.NodeReady, Status: v1.ConditionUnknown}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.o.Identity.Taints = []v1.Taint{{Key: "new", Effect: v1.TaintEffectNoSchedule}}
		defer w.start()()
		<-w.r.Ready()
		n := w.node()
		if n.UID != "old" || n.Labels["by"] != "admin" || n.Labels["zone"] != "a" ||
			n.Labels["kubernetes.io/hostname"] != "node-1" {
			t.Errorf("uid %s labels %v", n.UID, n.Labels)
		}
		if !n.Spec.Unschedulable || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "kept" {
			t.Errorf("spec: got %+v, want Unschedulable true and Taints of length 1 and Taints[0].Key kept", n.Spec)
		}
		if q := n.Status.Allocatable["example.com/widget"]; q.String() != "3" {
			t.Errorf("the extended resource is lost: %v", n.Status.Allocatable)
		}
		if w.condition("NetworkUnavailable").Reason != "RouteCreated" {
			t.Error("a condition of somebody else is lost")
		}
		synctest.Wait()
		if events := drainEvents(w.events); !slices.Contains(events,
			"Warning Rebooted Node node-1 has been rebooted, boot id: boot-1") {
			t.Errorf("events %q", events)
		}
	})
}

func TestServerAwayAtStart(t *testing.T) {
	runTest(t, func(w *testNode) {
		away := true
		w.api.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if away {
				return true, nil, errors.New("connection refused")
			}
			return false, nil, nil
		})
		defer w.start()()
		time.Sleep(20 * time.Second)
		w.mu.Lock()
		away = false
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		if c := w.condition(v1.NodeReady); c.Status != v1.ConditionTrue {
			t.Errorf("got %+v, want Status ConditionTrue", c)
		}
	})
}

func TestMissingOptions(t *testing.T) {
	if _, err := nodestatus.New(nodestatus.Options{}); err == nil || !strings.Contains(err.Error(), "Options.Client") {
		t.Errorf("got %v, want an error with Options.Client", err)
	}
}
