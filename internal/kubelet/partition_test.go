package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/cri"
)

// connection is the connection to the API server, which can be cut.
type connection struct {
	mu      sync.Mutex
	down    bool
	watches []watch.Interface
}

// connectWatches puts a line between the kubelet and its API.
func (r *rig) connectWatches() *connection {
	l := &connection{}
	r.api.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.down, nil, errors.New("dial tcp 192.0.2.9:6443: connect: no route to host")
	})
	r.api.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.down {
			return true, nil, errors.New("dial tcp 192.0.2.9:6443: connect: no route to host")
		}
		var opts metav1.ListOptions
		if w, ok := a.(clienttesting.WatchActionImpl); ok {
			opts = w.ListOptions
		}
		w, err := r.api.Tracker().Watch(a.GetResource(), a.GetNamespace(), opts)
		if err == nil {
			l.watches = append(l.watches, w)
		}
		return true, w, err
	})
	return l
}

func (l *connection) disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, w := range l.watches {
		w.Stop()
	}
	l.watches = nil
}

func (l *connection) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// For ten minutes the API server is unreachable: Pods run on by their last spec, are probed and
// restarted. Then the node reports what happened, and ends what was deleted meanwhile.
//
// row: KSL-11
// row: KSL-12
func TestAPIServerUnreachableForTenMinutes(t *testing.T) {
	runTest(t, func(r *rig) {
		r.stop() // the line must be there before the watches are
		l := r.connectWatches()
		r.start()
		a := r.serveProbes()
		web := scriptContainer("app", runs)
		web.LivenessProbe, web.ReadinessProbe = probeSpec("live", 10, 3), probeSpec("ready", 5, 3)
		r.create(pod("web", web))
		limited := scriptContainer("app", runs)
		limited.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi"),
			v1.ResourceCPU: resource.MustParse("100m")}
		limited.Resources.Requests = limited.Resources.Limits
		r.create(pod("killed", limited))
		r.create(pod("evicted", scriptContainer("app", runs)))
		r.create(pod("leaving", scriptContainer("app", runs)))
		r.advance(10 * time.Second)
		for _, name := range []string{"web", "killed", "evicted"} {
			if p := r.phase(name, v1.PodRunning); readyIs(p) != v1.ConditionTrue {
				t.Fatalf("got %+v, want readyIs(p) ConditionTrue", p.Status)
			}
		}
		l.disconnect()
		asked := a.count()
		r.advance(time.Minute)
		now := a.count()
		if n := now["live"] - asked["live"]; n != 6 {
			t.Errorf("%d liveness questions in a minute without the API, want 6", n)
		}
		r.kill("killed")
		a.fail("live")
		r.advance(31 * time.Second)
		a.fail()
		// Deleted and evicted in the API while the node is cut off.
		pods := v1.SchemeGroupVersion.WithResource("pods")
		if err := r.api.Tracker().Delete(pods, "default", "evicted"); err != nil {
			t.Fatal(err)
		}
		o, err := r.api.Tracker().Get(pods, "default", "leaving")
		if err != nil {
			t.Fatal(err)
		}
		leaving := o.(*v1.Pod).DeepCopy()
		leaving.DeletionTimestamp, leaving.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(5))
		if err := r.api.Tracker().Update(pods, leaving, "default"); err != nil {
			t.Fatal(err)
		}
		asked = a.count()
		r.advance(9 * time.Minute)
		now = a.count()
		for kind, want := range map[string]int{"live": 54, "ready": 108} {
			if n := now[kind] - asked[kind]; n < want-2 || n > want+2 {
				t.Errorf("%d %s questions in nine minutes to the container that was restarted, want %d", n, kind, want)
			}
		}
		local := map[string]*v1.Pod{}
		for _, p := range r.k.Pods() {
			local[p.Name] = p
		}
		for name, restarts := range map[string]int32{"web": 1, "killed": 1, "evicted": 0} {
			p := local[name]
			if p == nil || p.Status.ContainerStatuses[0].RestartCount != restarts ||
				p.Status.ContainerStatuses[0].State.Running == nil || readyIs(p) != v1.ConditionTrue {
				t.Errorf("%s after ten minutes alone: %+v", name, p)
			}
		}
		if got, want := r.limits("killed"), "memory 16777216 quota 10000; memory 16777216 quota 10000"; got != want {
			t.Errorf("limits of the container that was killed and of the one after it: %s, want %s", got, want)
		}
		if got, want := r.groups.log("poduid-killed"), "memory=16777216 quota=10000"; got != want {
			t.Errorf("the Pod's cgroup was given %q, want once %q", got, want)
		}
		l.reconnect()
		r.advance(2 * time.Minute) // the watch's own back-off is under a minute
		for _, name := range []string{"web", "killed"} {
			if p := r.phase(name, v1.PodRunning); p.Status.ContainerStatuses[0].RestartCount != 1 ||
				readyIs(p) != v1.ConditionTrue {
				t.Errorf("%s: got %+v", name, p.Status)
			}
		}
		for _, p := range r.k.Pods() {
			if p.Name == "evicted" || p.Name == "leaving" {
				t.Errorf("deleted during the cut, and still here: %+v", p.Status)
			}
		}
		if strings.Contains(r.fake.Dump(), "evicted") || strings.Contains(r.fake.Dump(), "leaving") {
			t.Errorf("the runtime still has it\n%s", r.fake.Dump())
		}
	})
}

// limits are those that the runtime has of a Pod's containers, whether they run or have ended.
func (r *rig) limits(name string) string {
	r.t.Helper()
	ctx := context.Background()
	list, err := r.cri.Runtime().ListContainers(ctx, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, c := range list {
		if c.Labels["io.kubernetes.pod.name"] != name {
			continue
		}
		s, err := r.cri.Runtime().ContainerStatus(ctx, c.Id, false)
		if err != nil {
			r.t.Fatal(err)
		}
		l := s.GetStatus().GetResources().GetLinux()
		out = append(out, fmt.Sprintf("memory %d quota %d", l.GetMemoryLimitInBytes(), l.GetCpuQuota()))
	}
	return strings.Join(out, "; ")
}

// kill ends a Pod's containers behind the kubelet's back.
func (r *rig) kill(name string) {
	r.t.Helper()
	r.behindTheKubelet(func(ctx context.Context, c *cri.Client) error {
		list, err := c.Runtime().ListContainers(ctx, nil)
		for _, x := range list {
			if x.Labels["io.kubernetes.pod.name"] == name {
				err = errors.Join(err, c.Runtime().StopContainer(ctx, x.Id, 0))
			}
		}
		return err
	})
}
