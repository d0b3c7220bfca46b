package kubelet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

// A resize that waits for room is granted when the node's allocatable resources grow.
func TestResizeIsGrantedWhenTheNodeGrows(t *testing.T) {
	runTest(t, func(r *rig) {
		m := metrics.New()
		r.stop()
		r.with = func(o *kubelet.Options) { o.Dependencies.Metrics = m }
		r.start()
		r.create(pod("other", asking(scriptContainer("app", runs), amounts("1", ""), nil)))
		r.create(pod("web", asking(scriptContainer("app", runs), amounts("500m", ""), nil)))
		r.resize("web", "app", amounts("1500m", ""), nil)
		if c := condition(r.get("web"), v1.PodResizePending); c == nil || c.Reason != v1.PodReasonDeferred {
			t.Fatalf("got %+v, want Reason PodReasonDeferred\n%s", c, r.facts.text())
		}
		n, err := r.api.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n = n.DeepCopy()
		n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("4")
		if _, err := r.api.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.advance(time.Second)
		r.wantSize("web", "1500m", "1500m", "0")
		if c := condition(r.get("web"), v1.PodResizePending); c != nil {
			t.Errorf("still %+v, want nil", c)
		}
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range []string{
			`kubelet_container_requested_resizes_total{operation="increase",requirement="requests",resource="cpu"} 1`,
			`kubelet_pod_deferred_resize_duration_seconds_count{priority_bucket="normal",resolution="accepted"} 1`,
			`kubelet_pod_resize_duration_milliseconds_count{success="true"} 1`,
			`kubelet_containers_per_pod_count_count 2`,
		} {
			if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
				t.Errorf("missing: %s", line)
			}
		}
	})
}

// metricLines are the lines of a kubelet's metrics that begin with one of the names.
func metricLines(m *metrics.Metrics, names ...string) []string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var out []string
	for line := range strings.Lines(w.Body.String()) {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(line, n) }) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// A resize that waits while the kubelet is restarted is counted as requested once, and its wait is
// measured from its beginning; one that was asked for while no kubelet was there is counted by the
// next.
func TestADeferredResizeIsCountedOnceOverARestart(t *testing.T) {
	runTest(t, func(r *rig) {
		m := metrics.New()
		r.stop()
		r.with = func(o *kubelet.Options) { o.Dependencies.Metrics = m }
		r.start()
		r.create(pod("other", asking(scriptContainer("app", runs), amounts("1", ""), nil)))
		r.create(pod("web", asking(scriptContainer("app", runs), amounts("500m", ""), nil)))
		r.resize("web", "app", amounts("1500m", ""), nil)
		if c := condition(r.get("web"), v1.PodResizePending); c == nil || c.Reason != v1.PodReasonDeferred {
			t.Fatalf("got %+v, want Reason PodReasonDeferred\n%s", c, r.facts.text())
		}
		requested := "kubelet_container_requested_resizes_total{"
		want := func(when string, want ...string) {
			t.Helper()
			if got := metricLines(m, requested, "kubelet_pod_deferred_resize_duration_seconds_sum",
				"kubelet_pod_infeasible"); !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", when, got, want)
			}
		}
		increase := requested + `operation="increase",requirement="requests",resource="cpu"} `
		want("asked for", increase+"1")
		r.stop()
		time.Sleep(9500 * time.Millisecond)
		r.start()
		r.advance(time.Second)
		want("after a restart", increase+"1")
		r.stop()
		r.resize("web", "app", amounts("1400m", ""), nil)
		r.start()
		r.advance(time.Second)
		want("asked for another while no kubelet was there", increase+"2")
		r.delete("other", 1)
		r.advance(5 * time.Second)
		r.wantSize("web", "1400m", "1400m", "0")
		took := metricLines(m, "kubelet_pod_deferred_resize_duration_seconds_sum")
		if len(took) != 1 || !strings.Contains(took[0], `resolution="accepted"} 1`) {
			t.Errorf("got %q, want some ten seconds until it was accepted", took)
		}
	})
}

// After a restart of the kubelet no Pod that runs is refused for what itself or younger ones use,
// and a new one gets the use of all of them: what has ended is not in it, nor what asks for
// nothing but a Pod's place.
//
// row: KSL-08
func TestRunningPodsKeepTheirRoomOverARestart(t *testing.T) {
	runTest(t, func(r *rig) {
		r.create(pod("one", asking(scriptContainer("app", runs), amounts("1", ""), nil)))
		r.create(pod("two", asking(scriptContainer("app", runs), amounts("900m", ""), nil)))
		r.create(pod("free", scriptContainer("app", runs)))
		over := pod("over", asking(scriptContainer("app", "true"), amounts("100m", ""), nil))
		over.Spec.RestartPolicy = v1.RestartPolicyNever
		r.create(over)
		r.phase("over", v1.PodSucceeded)
		before := r.get("two").Status.ContainerStatuses[0].ContainerID
		r.stop()
		r.start()
		r.create(pod("new", asking(scriptContainer("app", runs), amounts("200m", ""), nil)))
		r.advance(time.Second)
		const want = "Pod was rejected: Node didn't have enough resource: cpu, requested: 200, used: 1900, capacity: " +
			"2000"
		if s := r.get("new").Status; s.Reason != "OutOfcpu" || s.Message != want {
			t.Errorf("got %s %q, want OutOfcpu %q", s.Reason, s.Message, want)
		}
		for _, name := range []string{"one", "two", "free"} {
			r.phase(name, v1.PodRunning)
		}
		if got := r.get("two").Status.ContainerStatuses[0].ContainerID; got != before {
			t.Errorf("container %s, want %s: it ran on", got, before)
		}
	})
}
