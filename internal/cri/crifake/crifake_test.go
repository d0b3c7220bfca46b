package crifake_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
)

// testNode is a fake in memory, spoken to in virtual time.
type testNode struct {
	*testing.T
	f   *crifake.Fake
	c   *cri.Client
	dir string
}

func runTest(t *testing.T, o crifake.Options, test func(n *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Dir, o.InMemory = t.TempDir(), true
		if o.Images == nil {
			o.Images = []crifake.Image{{Names: []string{"img:1"}}}
		}
		f, err := crifake.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint(), Dialer: f.Dialer()})
		if err != nil {
			t.Fatal(err)
		}
		test(&testNode{t, f, c, t.TempDir()})
		_ = c.Close()
		f.Close()
	})
}

// run makes a Pod with one container, app; change may alter both configs.
func (n *testNode) run(name string,
	change func(*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig)) (id string, err error) {
	n.Helper()
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default",
		Uid: name}, LogDirectory: n.dir, Hostname: name}
	c := &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image: &runtimeapi.ImageSpec{Image: "img:1"}, LogPath: name + ".log"}
	if change != nil {
		change(pod, c)
	}
	box, err := n.c.Runtime().RunPodSandbox(n.Context(), pod, "")
	if err != nil {
		return "", err
	}
	if id, err = n.c.Runtime().CreateContainer(n.Context(), box, c, pod); err != nil {
		return "", err
	}
	return id, n.c.Runtime().StartContainer(n.Context(), id)
}

func (n *testNode) must(id string, err error) string {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
	return id
}

func (n *testNode) status(id string) *runtimeapi.ContainerStatus {
	n.Helper()
	r, err := n.c.Runtime().ContainerStatus(n.Context(), id, false)
	if err != nil {
		n.Fatal(err)
	}
	return r.Status
}

func (n *testNode) logged(name string) string {
	b, _ := os.ReadFile(filepath.Join(n.dir, name+".log"))
	var out []string
	for line := range strings.Lines(string(b)) {
		_, text, _ := strings.Cut(line, " F ")
		out = append(out, strings.TrimSpace(text))
	}
	return strings.Join(out, "|")
}

func command(argv ...string) func(*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig) {
	return func(_ *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) { c.Command = argv }
}

func TestScriptDuration(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		for i, c := range []struct {
			argv   []string
			lasts  time.Duration // negative: for good
			code   int32
			reason string
			log    string
		}{
			{[]string{"sleep", "3600"}, time.Hour, 0, "Completed", ""},
			{[]string{"sh", "-c", "echo a; sleep 2; echo b; exit 3"}, 2 * time.Second, 3, "Error", "a|b"},
			{[]string{"true"}, 0, 0, "Completed", ""},
			{[]string{"/bin/false"}, 0, 1, "Error", ""},
			{[]string{"sh", "-c", "for i in 1 2 3; do echo $i; sleep 1m; done"}, 3 * time.Minute, 0, "Completed",
				"1|2|3"},
			{[]string{"sh", "-c", "sleep 5; oom"}, 5 * time.Second, 137, "OOMKilled", ""},
			{[]string{"nginx", "-g", "daemon off;"}, -1, 0, "", ""},
			{[]string{"sleep", "infinity"}, -1, 0, "", ""},
			{nil, -1, 0, "", ""},
			{[]string{"sh", "-c", "if then"}, 0, 2, "Error", "sh: sh:1:1: `if` must be followed by a statement list"},
		} {
			name := fmt.Sprintf("pod%d", i)
			id := n.must(n.run(name, command(c.argv...)))
			began := time.Now()
			if c.lasts < 0 {
				time.Sleep(24 * time.Hour)
				if st := n.status(id); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
					t.Errorf("%q ended: got %v, want State %v", c.argv, st,
						runtimeapi.ContainerState_CONTAINER_RUNNING)
				}
				continue
			}
			if c.lasts > 0 {
				time.Sleep(c.lasts - time.Millisecond)
				if st := n.status(id); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
					t.Errorf("%q ended early: got %v, want State %v", c.argv, st,
						runtimeapi.ContainerState_CONTAINER_RUNNING)
				}
			}
			time.Sleep(2 * time.Millisecond)
			st := n.status(id)
			if took := time.Unix(0, st.FinishedAt).Sub(began); st.ExitCode != c.code || st.Reason != c.reason ||
				took != c.lasts {
				t.Errorf("%q: code %d reason %s after %s, want %d %s after %s", c.argv, st.ExitCode, st.Reason, took,
					c.code, c.reason, c.lasts)
			}
			if got := n.logged(name); got != c.log {
				t.Errorf("%q logged %q, want %q", c.argv, got, c.log)
			}
		}
	})
}

func TestScriptsOfImagesAnnotationsAndCommands(t *testing.T) {
	runTest(t, crifake.Options{
		Images: []crifake.Image{{Names: []string{"img:1"}, Script: crifake.Script{Sh: "exit 10"}}}}, func(n *testNode) {
		code := func(name string, change func(*runtimeapi.PodSandboxConfig, *runtimeapi.ContainerConfig)) int32 {
			id := n.must(n.run(name, change))
			synctest.Wait()
			return n.status(id).ExitCode
		}
		if got := code("image", nil); got != 10 {
			t.Errorf("the image's script: %d, want 10", got)
		}
		if got := code("command", command("sh", "-c", "exit 11")); got != 11 {
			t.Errorf("the container's command: %d, want 11", got)
		}
		annotated := func(p *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
			p.Annotations = map[string]string{crifake.AnnotationPrefix + "app": "exit 12"}
			c.Command = []string{"sleep", "1"}
		}
		if got := code("annotated", annotated); got != 12 {
			t.Errorf("the Pod's annotation: %d, want 12", got)
		}
		n.f.On(crifake.Match{PodPrefix: "rul"}, crifake.Script{Main: func(p *crifake.Process) int {
			fmt.Fprintln(p.Stdout, p.Pod, p.Container)
			return 13
		}})
		if got := code("ruled", annotated); got != 13 || n.logged("ruled") != "default/ruled app" {
			t.Errorf("a rule: %d %q, want 13, \"default/ruled app\"", got, n.logged("ruled"))
		}
		n.f.On(crifake.Match{Image: "img"}, crifake.Script{StartError: `exec: "x": executable file not found in $PATH`})
		id, err := n.run("unstartable", nil)
		if err == nil || !strings.Contains(err.Error(), "executable file not found") {
			t.Errorf(`got %v, want an error with "executable file not found"`, err)
		}
		if st := n.status(id); st.ExitCode != 128 || st.Reason != "StartError" ||
			st.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Errorf("got %v, want ExitCode 128, Reason StartError and State ContainerState_CONTAINER_EXITED", st)
		}
	})
}

func TestSignals(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		for name, c := range map[string]struct {
			script string
			signal runtimeapi.Signal
			grace  int64
			after  time.Duration
			code   int32
		}{
			"program":    {"run", 0, 30, 0, 0},
			"shell":      {"sleep 1000", 0, 30, 0, 143},
			"trap":       {"trap 'sleep 5; exit 3' TERM; sleep 1000", 0, 30, 5 * time.Second, 3},
			"ignored":    {"trap '' TERM; sleep 1000", 0, 30, 30 * time.Second, 137},
			"goes-on":    {"trap 'echo no' TERM; sleep 10; exit 4", 0, 30, 10 * time.Second, 4},
			"slow":       {"trap 'sleep 100; exit 3' TERM; sleep 1000", 0, 30, 30 * time.Second, 137},
			"usr1":       {"trap 'exit 5' USR1; sleep 1000", runtimeapi.Signal_SIGNAL_SIGUSR1, 30, 0, 5},
			"no-grace":   {"trap 'exit 3' TERM; sleep 1000", 0, 0, 0, 137},
			"background": {"trap 'exit 6' TERM; sleep 1000 & wait", 0, 30, 0, 6},
		} {
			id := n.must(n.run(name, func(_ *runtimeapi.PodSandboxConfig, cc *runtimeapi.ContainerConfig) {
				cc.Command, cc.StopSignal = []string{"sh", "-c", c.script}, c.signal
			}))
			synctest.Wait()
			began := time.Now()
			if err := n.c.Runtime().StopContainer(n.Context(), id, c.grace); err != nil {
				t.Fatal(err)
			}
			if took, st := time.Since(began), n.status(id); took != c.after || st.ExitCode != c.code {
				t.Errorf("%s: code %d after %s, want %d after %s", name, st.ExitCode, took, c.code, c.after)
			}
		}
	})
}

func TestFilesOfAContainer(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		host := t.TempDir()
		if err := os.WriteFile(filepath.Join(host, "key"), []byte("value\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		message := filepath.Join(t.TempDir(), "message")
		if err := os.WriteFile(message, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		n.must(n.run("web", func(_ *runtimeapi.PodSandboxConfig, c *runtimeapi.ContainerConfig) {
			c.Command = []string{"sh", "-c",
				`cat /etc/config/key; echo "$A $HOSTNAME"; echo bye > /dev/termination-log;
				touch /tmp/x && test -e /tmp/x && echo there
				touch /etc/config/new || echo refused; cat /etc/passwd-of-the-host; ls /etc/config;
				cat /nowhere/else 2>/dev/null; echo $?`}
			c.Envs = []*runtimeapi.KeyValue{{Key: "A", Value: []byte("hello")}}
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/etc/config", HostPath: host, Readonly: true},
				{ContainerPath: "/dev/termination-log", HostPath: message}}
		}))
		synctest.Wait()
		want := "value|hello web|there|touch: /etc/config/new: Read-only file system|refused|cat: can't open " +
			"'/etc/passwd-of-the-host': No such file or directory|key|1"
		if got := n.logged("web"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if b, _ := os.ReadFile(message); string(b) != "bye\n" {
			t.Errorf("termination message %q", b)
		}
	})
}

func TestLivenessExample(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		id := n.must(
			n.run("liveness", command("/bin/sh", "-c", "touch /tmp/healthy; sleep 30; rm -f /tmp/healthy; sleep 600")))
		synctest.Wait()
		probe := func() error {
			_, _, err := n.c.ProbeRuntime().ExecSync(n.Context(), id, []string{"cat", "/tmp/healthy"}, time.Second)
			return err
		}
		if err := probe(); err != nil {
			t.Error(err)
		}
		time.Sleep(31 * time.Second)
		if err := probe(); err == nil || !strings.Contains(err.Error(),
			"can't open '/tmp/healthy': No such file or directory") {
			t.Errorf(`got %v, want an error with "can't open '/tmp/healthy': No such file or directory"`, err)
		}
	})
}

func TestImages(t *testing.T) {
	registry := []crifake.Image{
		{Names: []string{"registry.example/slow:1"}, Pull: time.Minute},
		{Names: []string{"registry.example/private:1"}, Auth: "user:pass"},
		{Names: []string{"registry.example/broken:1"}, Error: "unexpected EOF"},
	}
	runTest(t, crifake.Options{Registry: registry}, func(n *testNode) {
		pull := func(name string, auth *runtimeapi.AuthConfig) (time.Duration, error) {
			began := time.Now()
			_, err := n.c.Images().PullImage(n.Context(), &runtimeapi.ImageSpec{Image: name}, auth, nil)
			return time.Since(began), err
		}
		if took, err := pull("registry.example/slow:1", nil); err != nil || took != time.Minute {
			t.Errorf("got %v, %v, want no error and took Minute", took, err)
		}
		if _, err := pull("registry.example/none:1", nil); status.Code(err) != codes.NotFound ||
			!strings.HasSuffix(err.Error(), "registry.example/none:1: not found") {
			t.Errorf(`got %v, want status.Code(err) NotFound and an error ending in "registry.example/none:1: not `+
				`found"`, err)
		}
		if _, err := pull("registry.example/private:1", nil); err == nil || !strings.Contains(err.Error(),
			"no basic auth credentials") {
			t.Errorf(`got %v, want an error with "no basic auth credentials"`, err)
		}
		if _, err := pull("registry.example/private:1",
			&runtimeapi.AuthConfig{Username: "user", Password: "pass"}); err != nil {
			t.Error(err)
		}
		if _, err := pull("registry.example/broken:1", nil); err == nil || !strings.Contains(err.Error(),
			"unexpected EOF") {
			t.Errorf(`got %v, want an error with "unexpected EOF"`, err)
		}
		ctx, cancel := context.WithTimeout(n.Context(), time.Second)
		defer cancel()
		if _, err := n.c.Images().PullImage(ctx, &runtimeapi.ImageSpec{Image: "registry.example/slow:1"}, nil,
			nil); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v, want status.Code(err) DeadlineExceeded", err)
		}
	})
}

func TestFaults(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		if err := n.f.Fault("StartContainer", "2*error(no space)->1*error(NotFound: gone)->ok"); err != nil {
			t.Fatal(err)
		}
		id, err := n.run("web", nil)
		for i, want := range []codes.Code{codes.Unknown, codes.Unknown, codes.NotFound, codes.OK} {
			if status.Code(err) != want {
				t.Errorf("start %d: %v, want %s", i, err, want)
			}
			if i < 3 {
				err = n.c.Runtime().StartContainer(n.Context(), id)
			}
		}
		_ = n.f.Fault("ContainerStatus", "delay(2s)")
		began := time.Now()
		n.status(id)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("delay took %s, want %v", took, 2*time.Second)
		}
		_ = n.f.Fault("StopContainer", "1*drop")
		if err := n.c.Runtime().StopContainer(n.Context(), id, 0); status.Code(err) != codes.Unavailable {
			t.Errorf("drop: %v", err)
		}
		_ = n.f.Fault("ContainerStatus", "")
		if st := n.status(id); st.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Errorf("a dropped answer undid the call: got %v, want %v",
				st.State, runtimeapi.ContainerState_CONTAINER_EXITED)
		}
		for _, bad := range []string{"3", "0*ok", "explode", "error(x", "delay(soon)"} {
			if err := n.f.Fault("X", bad); err == nil {
				t.Errorf("fault %q is accepted", bad)
			}
		}
	})
}

func TestAddressesComeBack(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		first := n.must(n.run("one", nil))
		n.must(n.run("two", nil))
		want := "pod default/one attempt=0 ready ip=10.88.0.2\n  app attempt=0 running " +
			"image=docker.io/library/img:1\n" +
			"pod default/two attempt=0 ready ip=10.88.0.3\n  app attempt=0 running image=docker.io/library/img:1\n"
		if got := n.f.Dump(); got != want {
			t.Errorf("dump:\n%s", got)
		}
		list, _ := n.c.Runtime().ListContainers(n.Context(), &runtimeapi.ContainerFilter{Id: first})
		if err := n.c.Runtime().StopPodSandbox(n.Context(), list[0].PodSandboxId); err != nil {
			t.Fatal(err)
		}
		if got := n.f.Dump(); !strings.HasPrefix(got,
			"pod default/one attempt=0 stopped\n  app attempt=0 exited code=137 reason=Error\n") {
			t.Errorf("dump:\n%s", got)
		}
		if calls := n.f.Calls(); len(calls) != 7 || calls[0].Method != "RunPodSandbox" ||
			calls[6].Method != "StopPodSandbox" {
			t.Errorf("%d calls", len(calls))
		}
		if n.f.Count("ListContainers") != 1 {
			t.Error("questions are not counted")
		}
	})
}

func TestPortsOfAPod(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		n.must(n.run("web", command("sh", "-c", "httpd 8080 503 not yet")))
		synctest.Wait()
		client := &http.Client{Transport: &http.Transport{DialContext: n.f.DialPod, DisableKeepAlives: true}}
		resp, err := client.Get("http://10.88.0.2:8080/")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 503 || string(b) != "not yet\n" {
			t.Errorf(`got %d %q, want StatusCode 503 and b "not yet"`, resp.StatusCode, b)
		}
		if _, err := client.Get("http://10.88.0.2:81/"); err == nil || !strings.Contains(err.Error(),
			"connection refused") {
			t.Errorf(`got %v, want an error with "connection refused"`, err)
		}
	})
}

// A fault of one Pod's pulls leaves other Pods' alone.
func TestFaultOfOnePodsPull(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		if err := n.f.FaultPod("a", "PullImage", "1*error(no route)->ok"); err != nil {
			t.Fatal(err)
		}
		pull := func(pod string) error {
			_, err := n.c.Images().PullImage(context.Background(), &runtimeapi.ImageSpec{Image: "img:2"}, nil,
				&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: pod, Namespace: "default",
					Uid: pod}})
			return err
		}
		if err := pull("b"); err != nil {
			t.Error(err)
		}
		if err := pull("a"); err == nil || !strings.Contains(err.Error(), "no route") {
			t.Errorf(`got %v, want an error with "no route"`, err)
		}
		if err := pull("a"); err != nil {
			t.Error(err)
		}
	})
}

// A call may be finished after its caller has given up, unless the runtime is killed meanwhile; and
// it is noted when a name has two ready sandboxes.
func TestCallsWithTheLateFaultStillTakeEffect(t *testing.T) {
	runTest(t, crifake.Options{}, func(n *testNode) {
		run := func(uid string) error {
			ctx, cancel := context.WithTimeout(n.Context(), time.Second)
			defer cancel()
			_, err := n.c.Runtime().RunPodSandbox(ctx,
				&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default",
					Uid: uid}}, "")
			return err
		}
		_ = n.f.Fault("RunPodSandbox", "1*late(3s)->ok")
		if err := run("late"); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v, want status.Code(err) DeadlineExceeded", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if d := n.f.Dump(); d != "" {
			t.Errorf("too early:\n%s", d)
		}
		if err := run("other"); err != nil || len(n.f.DuplicateSandboxes()) != 0 {
			t.Errorf("got %v, %v, want no error and no n.f.DuplicateSandboxes()", err, n.f.DuplicateSandboxes())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := n.f.DuplicateSandboxes(); len(got) != 1 ||
			got[0] != "web_default_other_0 was ready when web_default_late_0 was made" {
			t.Errorf(`got %q, want 1 in got and got[0] "web_default_other_0 was ready when web_default_late_0 …"`, got)
		}
		_ = n.f.Fault("RunPodSandbox", "late(3s)")
		if err := run("killed"); err == nil {
			t.Error("it was waited for")
		}
		n.f.Kill()
		if err := n.f.Restart(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if d := n.f.Dump(); strings.Count(d, "pod default/web") != 2 {
			t.Errorf("made by a runtime that is dead:\n%s", d)
		}
	})
}
