package kubelet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

const ignoresTERM = "trap '' TERM; while true; do sleep 1; done"

// steps are the steps of the stop that were told so far, as container:step.
func (r *rig) steps() string {
	var out []string
	for _, l := range strings.Split(r.facts.text(), "\n") {
		if _, rest, ok := strings.Cut(l, "StopStep: container "); ok {
			out = append(out, strings.TrimSuffix(strings.Join(strings.Fields(rest)[:2], ""), ":"))
		}
	}
	return strings.Join(out, " ")
}

// expectFact fails unless a fact has the text.
func (r *rig) expectFact(text string) {
	r.t.Helper()
	if !strings.Contains(r.facts.text(), text) {
		r.t.Errorf("no fact %q in\n%s", text, r.facts.text())
	}
}

// All containers get TERM as soon as the Pod is deleted, at the same time, and the slow one holds
// up nothing but its own end.
//
// row: TRM-04
// row: TRM-08
func TestEachContainerGetsTERMAtOnce(t *testing.T) {
	runTest(t, func(r *rig) {
		slow := "trap 'sleep 5; exit 0' TERM; while true; do sleep 1; done"
		r.create(pod("p", scriptContainer("a", slow), scriptContainer("b", slow), scriptContainer("c", runs)))
		r.phase("p", v1.PodRunning)
		r.delete("p", 30)
		r.advance(500 * time.Millisecond)
		got := r.steps()
		for _, c := range []string{"a", "b", "c"} {
			if !strings.Contains(got, c+":TERM") {
				t.Errorf("half a second after the deletion: got %q, want TERM for %s", got, c)
			}
		}
		r.advance(7 * time.Second)
		r.expectPodGone("p")
	})
}

// A Pod that is about to start is stopped as soon as one that runs: its init container gets TERM,
// and what has not been started never is.
//
// row: TRM-04
// row: TRM-08
func TestAPodThatStartsIsStoppedAtOnce(t *testing.T) {
	slow := "trap 'sleep 5; exit 0' TERM; while true; do sleep 1; done"
	for name, containers := range map[string]struct{ init, app, running string }{
		"its init container runs":      {slow, runs, "first"},
		"its container backs off":      {"exit 0", "exit 1", ""},
		"its container runs once":      {"exit 0", slow, "app"},
		"its init container backs off": {"exit 1", runs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(r *rig) {
				p := pod("p", scriptContainer("app", containers.app))
				p.Spec.InitContainers = []v1.Container{scriptContainer("first", containers.init)}
				r.create(p)
				r.advance(3 * time.Second)
				before := r.fake.Count("StartContainer")
				r.delete("p", 30)
				r.advance(500 * time.Millisecond)
				want := ""
				if containers.running != "" {
					want = containers.running + ":TERM"
				}
				if got := r.steps(); got != want {
					t.Errorf("half a second after the deletion: got %q, want %q", got, want)
				}
				r.advance(7 * time.Second)
				r.expectPodGone("p")
				if n := r.fake.Count("StartContainer") - before; n != 0 {
					t.Errorf("%d containers were started after the deletion", n)
				}
			})
		})
	}
}

// The hook's time is the grace period's: what is left of it comes between TERM and KILL.
//
// row: TRM-05
// row: TRM-06
// row: TRM-07
// row: TRM-09
func TestPreStopCountsAgainstTheGrace(t *testing.T) {
	runTest(t, func(r *rig) {
		c := scriptContainer("app", ignoresTERM)
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}}
		r.create(pod("p", c))
		r.phase("p", v1.PodRunning)
		r.delete("p", 10)
		r.advance(4900 * time.Millisecond)
		if got := r.steps(); got != "" {
			t.Errorf("got %q while the hook runs, want no TERM", got)
		}
		r.advance(200 * time.Millisecond)
		if got := r.steps(); got != "app:preStop app:TERM" {
			t.Errorf("got %q after the hook, want TERM", got)
		}
		r.expectFact("app: TERM: KILL after 5 s")
		r.advance(4800 * time.Millisecond)
		if r.get("p") == nil {
			t.Error("killed before the grace period was over")
		}
		r.advance(time.Second)
		r.expectPodGone("p")
		r.expectFact("app exited with code 137")
	})
}

// Without a grace period there is no hook, and TERM is followed by KILL after two seconds.
//
// row: TRM-03
// row: TRM-05
func TestForceRunsNoHookAndGivesASmallGrace(t *testing.T) {
	runTest(t, func(r *rig) {
		c := scriptContainer("app", ignoresTERM)
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}}
		more := *c.DeepCopy()
		more.Name = "more"
		r.create(pod("p", c, more))
		r.phase("p", v1.PodRunning)
		r.delete("p", 0)
		if r.get("p") != nil {
			r.forceDelete("p")
		}
		r.advance(500 * time.Millisecond)
		if got := r.steps(); got != "app:TERM more:TERM" && got != "more:TERM app:TERM" {
			t.Errorf("half a second after it was forced: got %q, want TERM of both and no hook", got)
		}
		r.advance(time.Second)
		if strings.Contains(r.facts.text(), " exited") {
			t.Error("killed without a small grace")
		}
		r.advance(time.Second)
		r.expectFact("app exited with code 137")
		r.expectFact("more exited with code 137")
		r.advance(time.Second)
		r.expectPodGone("p")
	})
}

// Each container's own hook runs before its own TERM, all from the start of the stop: those of
// sidecars too, and those of a container that is stopped for its probe or was started again.
//
// row: TRM-05
// row: TRM-06
func TestEachContainersHookComesBeforeItsTERM(t *testing.T) {
	runTest(t, func(r *rig) {
		with := func(name string, h v1.LifecycleHandler) v1.Container {
			c := scriptContainer(name, runs)
			c.Lifecycle = &v1.Lifecycle{PreStop: &h}
			return c
		}
		sleep := func(s int64) v1.LifecycleHandler { return v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: s}} }
		p := pod("p", with("a", sleep(2)),
			with("b", v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "sleep 3"}}}),
			scriptContainer("c", runs))
		p.Spec.InitContainers = []v1.Container{with("side", sleep(5))}
		p.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		r.create(p)
		r.phase("p", v1.PodRunning)
		r.kill("p") // what runs then has been started again
		r.advance(2 * time.Second)
		r.phase("p", v1.PodRunning)
		told := len(r.steps())
		r.delete("p", 30)
		for _, x := range []struct {
			after time.Duration
			want  string
		}{
			{1, "c:TERM c:stopped"},
			{1, "c:TERM c:stopped a:preStop a:TERM a:stopped"},
			{1, "c:TERM c:stopped a:preStop a:TERM a:stopped b:preStop b:TERM b:stopped"},
			{2, "c:TERM c:stopped a:preStop a:TERM a:stopped b:preStop b:TERM b:stopped side:preStop side:TERM " +
				"side:stopped"},
		} {
			r.advance(x.after*time.Second + 100*time.Millisecond)
			if got := strings.TrimSpace(r.steps()[told:]); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		}
		r.advance(time.Second)
		r.expectPodGone("p")
	})
	runTest(t, func(r *rig) {
		c := scriptContainer("app", runs)
		c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 2}}}
		c.LivenessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "exit 1"}}},
			PeriodSeconds: 5, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1, InitialDelaySeconds: 5}
		r.create(pod("p", c))
		r.advance(22 * time.Second)
		if got, once := r.steps(), "app:preStop app:TERM app:stopped"; !strings.HasPrefix(got, once+" "+once) {
			t.Errorf("stopped twice for its probe: %q, want its hook and then TERM each time", got)
		}
	})
}

// Sidecars whose turn has not come when the grace period is used up are all ended then, at the same
// time and with two seconds each.
//
// row: ISE-25
// row: TRM-07
func TestSidecarsWhenTheGraceIsUsedUp(t *testing.T) {
	runTest(t, func(r *rig) {
		p := pod("p", scriptContainer("app", ignoresTERM))
		for i := range 3 {
			c := scriptContainer(fmt.Sprint("s", i), ignoresTERM)
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		r.create(p)
		r.phase("p", v1.PodRunning)
		r.delete("p", 4)
		r.advance(3900 * time.Millisecond)
		if got := r.steps(); got != "app:TERM" {
			t.Errorf("got %q while the app has grace left, want its TERM only", got)
		}
		r.advance(300 * time.Millisecond)
		for i := range 3 {
			r.expectFact(fmt.Sprintf("s%d: TERM: KILL after 2 s", i))
		}
		r.advance(2500 * time.Millisecond)
		r.expectPodGone("p")
	})
}

// A hook that asks with HTTPS a server that speaks HTTP is asked with HTTP, without what is meant
// for the server of the certificate; its failure there is the failure of HTTPS.
//
// row: TRM-05
func TestAnHTTPSHookFallsBackToHTTP(t *testing.T) {
	for answer, want := range map[string]struct {
		event string
		count string
	}{
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n": {"Warning LifecycleHTTPFallback: " +
			"request to HTTPS lifecycle hook 10.88.0.2:8443 got HTTP response, retry with HTTP succeeded",
			"kubelet_lifecycle_handler_http_fallbacks_total 1"},
		"nothing": {"Warning FailedPreStopHook: PreStopHook failed",
			"kubelet_lifecycle_handler_http_fallbacks_total 0"},
	} {
		runTest(t, func(r *rig) {
			var mu sync.Mutex
			var asked []string
			counts := metrics.New()
			r.stop()
			r.with = func(o *kubelet.Options) {
				o.Dependencies.Metrics = counts
				o.Dependencies.Dial = func(context.Context, string, string) (net.Conn, error) {
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						in := bufio.NewReader(far)
						if first, err := in.Peek(1); err != nil || first[0] == 0x16 { // a TLS handshake
							_, _ = io.WriteString(far, "HTTP/1.0 400 Bad Request\r\n\r\n")
							return
						}
						req, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						mu.Lock()
						asked = append(asked, fmt.Sprintf("%s %s %q %q", req.URL.Path, req.UserAgent(),
							req.Header.Get("Authorization"), req.Header.Get("X-Mine")))
						mu.Unlock()
						_, _ = io.WriteString(far, answer)
					}()
					return near, nil
				}
			}
			r.start()
			c := scriptContainer("app", runs)
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: "bye",
				Port: intstr.FromInt32(8443), Scheme: v1.URISchemeHTTPS, HTTPHeaders: []v1.HTTPHeader{
					{Name: "Authorization", Value: "secret"}, {Name: "X-Mine", Value: "yes"}}}}}
			r.create(pod("p", c))
			r.phase("p", v1.PodRunning)
			r.delete("p", 30)
			r.advance(time.Minute)
			r.expectPodGone("p")
			mu.Lock()
			defer mu.Unlock()
			const request = `/bye kube-lifecycle/1.37 "" "yes"`
			if got := strings.Join(asked, ", "); got != request {
				t.Errorf("asked with HTTP: got %s, want %s", got, request)
			}
			if got := r.events.count(want.event); got != 1 {
				t.Errorf("got %v, want once %q", r.events.text(), want.event)
			}
			scraped := httptest.NewRecorder()
			counts.Handler().ServeHTTP(scraped,
				httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			if got := scraped.Body.String(); !strings.Contains(got, want.count+"\n") {
				t.Errorf("got metrics\n%s\nwant %q in them", got, want.count)
			}
		})
	}
}
