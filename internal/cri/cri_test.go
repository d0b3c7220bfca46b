package cri_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/journal"
)

// factLog is a journal for tests.
type factLog struct {
	mu    sync.Mutex
	lines []string
}

func (n *factLog) Put(ref journal.Ref, f journal.Fact) {
	c := f.(journal.Called)
	n.mu.Lock()
	defer n.mu.Unlock()
	line := fmt.Sprintf("%s/%s %s %s %s", ref.Namespace, ref.Name, c.Service, c.Method, c.Target)
	if c.Error != "" {
		line += " failed"
	}
	n.lines = append(n.lines, strings.TrimSpace(line))
}

func (n *factLog) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.lines
	n.lines = nil
	return out
}

func start(t *testing.T) *crifake.Fake {
	t.Helper()
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), Images: []crifake.Image{{Names: []string{"img:1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func dial(t *testing.T, o cri.Options) *cri.Client {
	t.Helper()
	c, err := cri.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name + "-uid"},
		Labels: map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default",
			"io.kubernetes.pod.uid": name + "-uid"},
	}
}

func containerConfig(pod *runtimeapi.PodSandboxConfig, name string) *runtimeapi.ContainerConfig {
	labels := map[string]string{"io.kubernetes.container.name": name}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	return &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image: &runtimeapi.ImageSpec{Image: "img:1"}, Labels: labels}
}

func TestChangingCallsAreJournaled(t *testing.T) {
	f := start(t)
	var notes factLog
	c := dial(t, cri.Options{Endpoint: f.Endpoint(), Journal: &notes})
	rt, ctx := c.Runtime(), t.Context()
	pod := podConfig("web")
	id, err := rt.RunPodSandbox(ctx, pod, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Images().PullImage(ctx, &runtimeapi.ImageSpec{Image: "img:1"}, nil, pod); err != nil {
		t.Fatal(err)
	}
	app, err := rt.CreateContainer(ctx, id, containerConfig(pod, "app"), pod)
	if err != nil {
		t.Fatal(err)
	}
	_ = rt.StartContainer(ctx, app)
	_ = rt.StartContainer(ctx, app)
	_, _, _ = rt.ExecSync(ctx, app, []string{"true"}, time.Second)
	_, _, _ = c.ProbeRuntime().ExecSync(ctx, app, []string{"true"}, time.Second)
	_, _ = rt.ContainerStatus(ctx, app, false)
	want := []string{
		"default/web CRI RunPodSandbox", "default/web CRI PullImage img:1", "default/web CRI CreateContainer app",
		"default/web CRI StartContainer app",
		"default/web CRI StartContainer app failed", "default/web CRI ExecSync app",
	}
	if got := notes.take(); !slices.Equal(got, want) {
		t.Errorf("journal %q, want %q", got, want)
	}

	// A new client, as after a restart of the kubelet, learns the owners of ids from listings.
	again := dial(t, cri.Options{Endpoint: f.Endpoint(), Journal: &notes})
	if _, err := again.Runtime().ListPodSandbox(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Runtime().ListContainers(ctx, nil); err != nil {
		t.Fatal(err)
	}
	_ = again.Runtime().StopContainer(ctx, app, 0)
	_ = again.Runtime().RemoveContainer(ctx, app)
	_ = again.Runtime().StopPodSandbox(ctx, id)
	_ = again.Runtime().RemovePodSandbox(ctx, id)
	want = []string{"default/web CRI StopContainer app", "default/web CRI RemoveContainer app",
		"default/web CRI StopPodSandbox", "default/web CRI RemovePodSandbox"}
	if got := notes.take(); !slices.Equal(got, want) {
		t.Errorf("journal %q, want %q", got, want)
	}
}

// The standard sockets of containerd and of CRI-O are spoken to alike: only the endpoint differs,
// and the runtime's name is what it says itself.
//
// row: CRI-01
func TestOnlyTheEndpointDiffersBetweenRuntimes(t *testing.T) {
	for endpoint, name := range map[string]string{
		"unix:///run/containerd/containerd.sock": "containerd", "unix:///run/crio/crio.sock": "cri-o",
		"/run/crio/crio.sock": "cri-o",
	} {
		t.Run(endpoint, func(t *testing.T) {
			f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), Name: name,
				Images: []crifake.Image{{Names: []string{"img:1"}}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			dialer := func(ctx context.Context, path string) (net.Conn, error) {
				if want := strings.TrimPrefix(endpoint, "unix://"); path != want {
					t.Errorf("dialled %s, want %s", path, want)
				}
				return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(f.Endpoint(), "unix://"))
			}
			c := dial(t, cri.Options{Endpoint: endpoint, Dialer: dialer})
			if got := c.Version().GetRuntimeName(); got != name {
				t.Errorf("got runtime %q, want %s", got, name)
			}
			box, err := c.Runtime().RunPodSandbox(t.Context(), podConfig("web"), "")
			if err != nil {
				t.Fatal(err)
			}
			app, err := c.Runtime().CreateContainer(t.Context(), box, &runtimeapi.ContainerConfig{
				Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
				Image:    &runtimeapi.ImageSpec{Image: "img:1"}}, podConfig("web"))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Runtime().StartContainer(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			st, err := c.Runtime().ContainerStatus(t.Context(), app, false)
			if err != nil || st.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Errorf("got %v (%v), want a container that runs", st.GetStatus().GetState(), err)
			}
		})
	}
}

// row: CRI-01
func TestEndpointErrors(t *testing.T) {
	dir := t.TempDir()
	unlogged := filepath.Join(dir, "silent.sock")
	l, err := net.Listen("unix", unlogged)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := filepath.Join(dir, "other.sock")
	ol, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	go srv.Serve(ol) //nolint:errcheck // ends with Stop
	defer srv.Stop()
	for endpoint, want := range map[string]string{
		"":                              "is empty: set containerRuntimeEndpoint",
		"tcp://127.0.0.1:1":             "only unix sockets are spoken to",
		"unix://relative.sock":          "the socket's path is not absolute",
		"unix://" + dir + "/none.sock":  "there is no socket: is the container runtime running?",
		"unix://" + unlogged:            "does not answer",
		"unix://" + other:               "does not serve runtime.v1.RuntimeService",
		filepath.Join(dir, "none.sock"): "there is no socket",
	} {
		timeout := 100 * time.Millisecond
		if strings.HasSuffix(endpoint, other) { // it answers, if late on a busy machine
			timeout = time.Minute
		}
		_, err := cri.Dial(t.Context(), cri.Options{Endpoint: endpoint, ConnectTimeout: timeout})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
	}
}

// Dial waits for a runtime that is about to come up.
func TestDialWaits(t *testing.T) {
	dir := t.TempDir()
	made := make(chan *crifake.Fake, 1)
	tried := make(chan struct{}, 100)
	go func() {
		<-tried
		f, err := crifake.Start(crifake.Options{Dir: dir})
		if err != nil {
			t.Error(err)
		}
		made <- f
	}()
	dial(t, cri.Options{Endpoint: "unix://" + filepath.Join(dir, "cri.sock"),
		Dialer: func(ctx context.Context, path string) (net.Conn, error) {
			tried <- struct{}{}
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}})
	(<-made).Close()
}

// row: CRI-02
func TestSeparateImageService(t *testing.T) {
	runtime, images := start(t), start(t)
	images.AddImage(crifake.Image{Names: []string{"only-here:1"}})
	c := dial(t, cri.Options{Endpoint: runtime.Endpoint(), ImageEndpoint: images.Endpoint()})
	st, err := c.Images().ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: "only-here:1"}, false)
	if err != nil || st.Image == nil {
		t.Errorf("got %v, %v, want no error and set Image", st, err)
	}
}

// row: CRI-19
func TestEventsComeBackAfterARestart(t *testing.T) {
	f := start(t)
	c := dial(t, cri.Options{Endpoint: f.Endpoint()})
	ctx, cancel := context.WithCancel(t.Context())
	events := c.Events(ctx)
	next := func() *runtimeapi.ContainerEventResponse {
		t.Helper()
		select {
		case e, open := <-events:
			if !open {
				t.Fatal("channel closed")
			}
			return e
		case <-time.After(30 * time.Second):
			t.Fatal("no event")
			return nil
		}
	}
	if e := next(); e != nil {
		t.Errorf("first event: got %v, want nil", e)
	}
	before, err := c.Runtime().RunPodSandbox(ctx, podConfig("before"), "")
	if err != nil {
		t.Fatal(err)
	}
	if e := next(); e.GetContainerId() != before {
		t.Errorf("event %v", e)
	}
	next()
	f.Kill()
	if err := f.Restart(); err != nil {
		t.Fatal(err)
	}
	if e := next(); e != nil {
		t.Errorf("after the restart comes %v, not the call to relist", e)
	}
	list, err := c.Runtime().ListPodSandbox(ctx, nil)
	if err != nil || len(list) != 1 || list[0].Id != before {
		t.Errorf("after the restart: %v %v", list, err)
	}
	after, err := c.Runtime().RunPodSandbox(ctx, podConfig("after"), "")
	if err != nil {
		t.Fatal(err)
	}
	if e := next(); e.GetContainerId() != after {
		t.Errorf("event %v", e)
	}
	cancel()
	for range events { //nolint:revive // until it is closed
	}
}

func TestFeatures(t *testing.T) {
	c := dial(t, cri.Options{Endpoint: start(t).Endpoint()})
	f, err := c.Features(t.Context())
	if err != nil || f.CgroupDriver != "cgroupfs" || !f.SupplementalGroupsPolicy || f.MountOptions ||
		!f.Handlers[""].RecursiveReadOnlyMounts || f.Handlers["runc"].UserNamespaces {
		t.Errorf("got %+v %v, want no error, CgroupDriver cgroupfs, SupplementalGroupsPolicy true, MountOptions "+
			"false, RecursiveReadOnlyMounts true and UserNamespaces false", f, err)
	}
	if c.Version().GetRuntimeName() != "containerd" {
		t.Errorf("got %v, want c.Version().GetRuntimeName() containerd", c.Version())
	}
}

func TestMain(m *testing.M) {
	// Sockets of tests with long names must stay below the 108 bytes a unix socket's path may have.
	if len(os.TempDir()) > 40 {
		_ = os.Setenv("TMPDIR", "/tmp")
	}
	os.Exit(m.Run())
}

// receivedSignals takes the pending signals.
func receivedSignals(c *cri.Client) (doubt, images bool) {
	take := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	return take(c.Signals().RuntimeSuspect), take(c.Signals().ImagesChanged)
}

func TestRuntimeSignals(t *testing.T) {
	call := map[string]func(ctx context.Context, c *cri.Client){
		"a list": func(ctx context.Context, c *cri.Client) {
			_, _ = c.Runtime().ListContainers(ctx, nil)
		},
		"a state": func(ctx context.Context, c *cri.Client) { _, _ = c.Runtime().Status(ctx, false) },
		"an unknown container": func(ctx context.Context, c *cri.Client) {
			_, _ = c.Runtime().ContainerStatus(ctx, "nobody", false)
		},
		"a sandbox": func(ctx context.Context, c *cri.Client) {
			_, _ = c.Runtime().RunPodSandbox(ctx, podConfig("web"), "")
		},
		"a pull": func(ctx context.Context, c *cri.Client) {
			_, _ = c.Images().PullImage(ctx, &runtimeapi.ImageSpec{Image: "img:1"}, nil, nil)
		},
		"a removal": func(ctx context.Context, c *cri.Client) {
			_ = c.Images().RemoveImage(ctx, &runtimeapi.ImageSpec{Image: "img:1"})
		},
		"a list given up": func(ctx context.Context, c *cri.Client) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			time.AfterFunc(time.Second/2, cancel)
			_, _ = c.Runtime().ListContainers(ctx, nil)
		},
	}
	for _, c := range []struct {
		call, method, fault string
		doubt, images       bool
	}{
		{call: "a list"}, {call: "a state"}, {call: "an unknown container"}, {call: "a sandbox"},
		{call: "a pull", images: true}, {call: "a removal", images: true},
		{call: "a pull", method: "PullImage", fault: "error(no such image)"},
		{call: "a pull", method: "PullImage", fault: "delay(1m)", images: true},
		{call: "a list", method: "ListContainers", fault: "delay(4s)"},
		{call: "a list", method: "ListContainers", fault: "delay(6s)", doubt: true},
		{call: "a list", method: "ListContainers", fault: "drop", doubt: true},
		{call: "a list given up", method: "ListContainers", fault: "hang"},
		{call: "a state", method: "Status", fault: "hang"},
		{call: "a sandbox", method: "RunPodSandbox", fault: "error(cni plugin not initialized)", doubt: true},
	} {
		t.Run(c.call+" "+c.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), InMemory: true,
					Images: []crifake.Image{{Names: []string{"img:1"}}}})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				client, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint(), Dialer: f.Dialer()})
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				if c.fault != "" {
					if err := f.Fault(c.method, c.fault); err != nil {
						t.Fatal(err)
					}
				}
				call[c.call](t.Context(), client)
				synctest.Wait()
				if doubt, images := receivedSignals(client); doubt != c.doubt || images != c.images {
					t.Errorf("signs: doubt %t, images %t", doubt, images)
				}
			})
		})
	}
}

// A broken connection is a signal, and so is a re-established one.
func TestConnectionSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		client, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint(), Dialer: f.Dialer()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		synctest.Wait()
		if doubt, _ := receivedSignals(client); doubt {
			t.Error("a connection that stands is doubted")
		}
		f.Kill()
		synctest.Wait()
		if doubt, _ := receivedSignals(client); !doubt {
			t.Error("a connection that broke is no sign")
		}
		if err := f.Restart(); err != nil {
			t.Fatal(err)
		}
		_, _ = client.Runtime().Status(t.Context(), false)
		synctest.Wait()
		if doubt, _ := receivedSignals(client); !doubt {
			t.Error("a connection that is there again is no sign")
		}
	})
}
