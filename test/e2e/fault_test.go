package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/up"
)

// Killed processes, Pods deleted in the middle of things, many at once: nothing acknowledged is
// lost, no container restarts, readiness holds.
func TestFaults(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	for _, fault := range []struct {
		name string
		run  func(*cluster)
	}{
		{"fifty Pods at once", fiftyPods},
		{"deleted while pulling", deletedWhilePulling},
		{"deleted in an init container", deletedInInit},
		{"deleted while crashing", deletedWhileCrashing},
		{"a Pod that ignores TERM", ignoresTerm},
	} {
		t.Run(fault.name, func(t *testing.T) { fault.run(c.forSubtest(t)) })
	}
}

// manyPods is n Pods in one manifest, with a readiness probe each when probed.
func manyPods(prefix string, n int, probed bool) string {
	probe := ""
	if probed {
		probe = "\n    readinessProbe: {exec: {command: [\"true\"]}, periodSeconds: 1}"
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: %s-%d, labels: {set: %s}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: busybox:1.28
    command: ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.5; done"]%s
`, prefix, i, prefix, probe)
	}
	return b.String()
}

func fiftyPods(c *cluster) {
	c.apply(manyPods("many", 50, false))
	c.kubectl("wait", "pod", "-l", "set=many", "--for=condition=Ready", "--timeout=120s")
	ips := strings.Fields(c.kubectl("get", "pods", "-l", "set=many", "-o", "jsonpath={.items[*].status.podIP}"))
	seen := map[string]bool{}
	for _, ip := range ips {
		seen[ip] = true
	}
	if len(seen) != 50 {
		c.t.Errorf("%d different addresses for 50 Pods, want 50", len(seen))
	}
	c.kubectl("delete", "pod", "-l", "set=many", "--timeout=120s")
}

func deletedWhilePulling(c *cluster) {
	asked := make(chan struct{}, 100)
	release := make(chan struct{})
	reg, err := images.Serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") && r.Method == http.MethodGet ||
				r.Method == http.MethodHead {
				select {
				case asked <- struct{}{}:
				default:
				}
				select {
				case <-release:
				case <-r.Context().Done():
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	})
	if err != nil {
		c.t.Fatal(err)
	}
	defer reg.Close()
	c.apply(strings.ReplaceAll(podYAML("slow", "sleep 1000"), "busybox:1.28", reg.Addr+"/slow:1"))
	select {
	case <-asked:
	case <-time.After(time.Minute):
		c.t.Fatal("nobody asked the registry")
	}
	if why := c.gantry("why", "pod/slow"); !strings.Contains(why, "being pulled") {
		c.t.Errorf("why does not say that the image is being pulled:\n%s", why)
	}
	c.kubectl("delete", "pod", "slow", "--timeout=30s")
	close(release)
}

func deletedInInit(c *cluster) {
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: init}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - {name: wait, image: "busybox:1.28", command: ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.2; done"]}
  containers:
  - {name: app, image: "busybox:1.28", command: ["true"]}
`)
	c.eventually(time.Minute, "init container runs", func() (string, bool) {
		out := c.kubectl("get", "pod", "init", "-o", "jsonpath={.status.initContainerStatuses[0].state}")
		return out, strings.Contains(out, "running")
	})
	if why := c.gantry("why", "pod/init"); !strings.Contains(why, "Init container wait (1 of 1) runs") {
		c.t.Errorf("why:\n%s", why)
	}
	c.kubectl("delete", "pod", "init", "--timeout=30s")
}

func deletedWhileCrashing(c *cluster) {
	c.apply(podYAML("crash", "exit 1"))
	c.eventually(time.Minute, "CrashLoopBackOff", func() (string, bool) {
		out := c.kubectl("get", "pod", "crash", "-o",
			"jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.waiting.reason}")
		return out, out == "2 CrashLoopBackOff" // for 20 s
	})
	begin := time.Now()
	c.kubectl("delete", "pod", "crash", "--timeout=30s")
	if took := time.Since(begin); took > 15*time.Second {
		c.t.Errorf("took %s: the back-off was waited for", took)
	}
}

func ignoresTerm(c *cluster) {
	c.apply(podYAML("deaf", `trap '' TERM; while true; do sleep 0.2; done`))
	c.waitFor("pod/deaf", "condition=Ready", time.Minute)
	c.kubectl("delete", "pod", "deaf", "--wait=false")
	if why := c.gantry("why", "pod/deaf"); !strings.Contains(why, "Terminating") || !strings.Contains(why,
		"2s of grace") {
		c.t.Errorf("why:\n%s", why)
	}
	c.kubectl("wait", "pod/deaf", "--for=delete", "--timeout=30s")
}

// watchReadiness notes every Ready=False of the Pods of a set until stop is called. It survives an
// API server that goes away.
func (c *cluster) watchReadiness(set string) (stop func() []string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan []string, 1)
	program := "kubectl"
	if _, err := exec.LookPath(program); err != nil {
		program = filepath.Join(c.Bin, "kubectl")
	}
	go func() {
		var flaps []string
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, program, "--kubeconfig", c.Kubeconfig, "get", "pods", "-l", "set="+set,
				"-w",
				"-o",
				`jsonpath={.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\n"}`)
			out, _ := cmd.Output()
			for _, line := range strings.Split(string(out), "\n") {
				if strings.HasSuffix(line, " False") {
					flaps = append(flaps, line)
				}
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		done <- flaps
	}()
	return func() []string { cancel(); return <-done }
}

// state is what must not change when processes are killed: container ids, restart counts, process
// ids of the containers' main processes.
func (c *cluster) state(set string) map[string]string {
	c.t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name, UID string }
			Status   struct {
				ContainerStatuses []struct {
					ContainerID  string
					RestartCount int
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(c.kubectl("get", "pods", "-l", "set="+set, "-o", "json")), &list); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range list.Items {
		for _, s := range p.Status.ContainerStatuses {
			out[p.Metadata.Name] = fmt.Sprintf("%s %s restarts=%d pids=%v", p.Metadata.UID, s.ContainerID,
				s.RestartCount, pidsOf(s.ContainerID))
		}
	}
	return out
}

// mainProcess is one that is process 1 in its own name space: not what the container's shell starts
// again and again.
var mainProcess = regexp.MustCompile(`(?m)^NSpid:\t\d+\t1$`)

// pidsOf finds the main process of a container by its cgroup.
func pidsOf(containerID string) []int {
	id := containerID[strings.LastIndex(containerID, "/")+1:]
	if id == "" {
		return nil
	}
	var out []int
	procs, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, p := range procs {
		raw, err := os.ReadFile(p)
		if err != nil || !strings.Contains(string(raw), id) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(p, "/")[2])
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if mainProcess.Match(status) {
			out = append(out, pid)
		}
	}
	return out
}

func (c *cluster) containerdPID() int {
	c.t.Helper()
	have := c.Process.Output()
	all := regexp.MustCompile(`containerd (?:started|adopted|restarted) \(pid (\d+)`).FindAllStringSubmatch(have, -1)
	if len(all) == 0 {
		c.t.Fatalf("gantry does not say which containerd it runs:\n%s", have)
	}
	pid, _ := strconv.Atoi(all[len(all)-1][1])
	return pid
}

// row: KSL-08
func TestKilledProcessesCostNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(manyPods("stay", 5, true))
	c.kubectl("wait", "pod", "-l", "set=stay", "--for=condition=Ready", "--timeout=60s")
	before := c.state("stay")
	for name, s := range before {
		if !strings.Contains(s, "pids=[") || strings.Contains(s, "pids=[]") {
			t.Fatalf("no main process found for %s: %s", name, s)
		}
	}
	stop := c.watchReadiness("stay")
	for _, kill := range []struct {
		name string
		run  func()
	}{
		{"gantry", func() { c.Kill(); c.Start() }},
		{"containerd", func() {
			if err := syscall.Kill(c.containerdPID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			c.WaitOutput("containerd restarted", time.Minute)
		}},
		{"both", func() {
			pid := c.containerdPID()
			c.Kill()
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			c.Start()
		}},
	} {
		c.kubectl("create", "configmap", "before-"+kill.name)
		kill.run()
		if out, err := c.try("", "get", "configmap", "before-"+kill.name); err != nil {
			t.Errorf("%s killed: an acknowledged write is lost: %s", kill.name, out)
		}
		name := "after-" + kill.name
		c.apply(podYAML(name, "trap 'exit 0' TERM; while true; do sleep 0.2; done"))
		c.waitFor("pod/"+name, "condition=Ready", time.Minute)
		if out := c.kubectl("exec", "stay-0", "--", "echo", "alive"); strings.TrimSpace(out) != "alive" {
			t.Errorf("%s killed: exec into an old Pod: %q", kill.name, out)
		}
		for pod, is := range c.state("stay") {
			if is != before[pod] {
				t.Errorf("%s killed: %s was %s, is %s", kill.name, pod, before[pod], is)
			}
		}
	}
	if flaps := stop(); len(flaps) > 0 {
		t.Errorf("readiness flapped: got %v, want none", flaps)
	}
	if trace := c.gantry("trace", "pod/stay-0"); !strings.Contains(trace, "create by") {
		t.Errorf("the journal forgot the beginning over the restarts:\n%s", trace)
	}
}

// Stopping leaves Pods running or stops them, as asked; the next start continues.
func TestStopAndStartAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(manyPods("stay", 2, false))
	c.kubectl("wait", "pod", "-l", "set=stay", "--for=condition=Ready", "--timeout=60s")
	before := c.state("stay")
	if err := c.Stop(); err != nil {
		t.Fatalf("SIGTERM: %v, want no error", err)
	}
	c.Start()
	for pod, is := range c.state("stay") {
		if is != before[pod] {
			t.Errorf("%s was %s, is %s", pod, before[pod], is)
		}
	}
	if err := c.Stop(); err != nil {
		t.Fatalf("SIGTERM: %v, want no error", err)
	}
	c.SetFlags("-v=2", "--stop-pods")
	c.Start()
	if err := c.Stop(); err != nil {
		t.Fatalf("SIGTERM with --stop-pods: %v, want no error", err)
	}
	for _, s := range before {
		id := strings.Fields(s)[1]
		if pids := pidsOf(id); len(pids) > 0 {
			t.Errorf("container %s still runs as %v", id, pids)
		}
	}
}

// Stopped with --clean nothing is left of the node: the check of what is left runs before `gantry
// clean` here.
func TestStopAndClean(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--clean")
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	c.apply(manyPods("short", 2, false))
	c.kubectl("wait", "pod", "-l", "set=short", "--for=condition=Ready", "--timeout=60s")
	if err := c.Stop(); err != nil {
		t.Fatalf("SIGTERM with --clean: %v, want no error", err)
	}
	for _, left := range c.Leftovers() {
		t.Errorf("left behind: %s", left)
	}
}

// Without privileges there is one sentence with the remedy.
func TestRefusesWithoutRoot(t *testing.T) {
	dir := binaries.Programs(t)
	copied := filepath.Join(t.TempDir(), "gantry")
	for parent := filepath.Dir(copied); parent != "/tmp" && parent != "/"; parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", filepath.Join(dir, "gantry"), copied).CombinedOutput(); err != nil {
		t.Fatalf("got %v %s, want no error", err, out)
	}
	cmd := exec.Command(copied, "up", "--data-dir", "/tmp/gantry-e2e-nobody")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "needs root") || !strings.Contains(string(out), "sudo") {
		t.Errorf(`got %v %s, want out with "needs root" and out with sudo`, err, out)
	}
}

// Two instances on one machine do not see each other.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	a, b := newCluster(t), newCluster(t)
	a.Launch()
	b.Launch()
	for _, c := range []*cluster{a, b} {
		c.WaitOutput(up.NodeReady, 60*time.Second)
	}
	for _, c := range []*cluster{a, b} {
		c.importImages("docker.io/library/busybox:1.28")
		c.apply(podYAML("same-name", "trap 'exit 0' TERM; while true; do sleep 0.2; done"))
	}
	for _, c := range []*cluster{a, b} {
		c.waitFor("pod/same-name", "condition=Ready", time.Minute)
	}
	a.kubectl("delete", "pod", "same-name")
	if out := b.kubectl("exec", "same-name", "--", "echo", "here"); strings.TrimSpace(out) != "here" {
		t.Errorf("the other instance's Pod: %q", out)
	}
}

// A start that cannot succeed says so in one sentence with its remedy.
func TestRefusals(t *testing.T) {
	c := newCluster(t)
	taken := newCluster(t)
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, x := range []struct {
		name  string
		setup func() []string
		want  []string
	}{
		{"taken port", func() []string { return c.UpCommand("--secure-port", port(l)) },
			[]string{"port " + port(l), "is taken", "--secure-port"}},
		{"bad node name", func() []string { return c.UpCommand("--node-name", "A_b") },
			[]string{"--node-name", "A_b"}},
		{"unknown flag", func() []string { return c.UpCommand("--no-such-flag") },
			[]string{"--no-such-flag", "--help"}},
		{"bad configuration", func() []string {
			return c.UpCommand("--kubelet-config",
				c.file("kubelet.yaml",
					"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\n"))
		}, []string{"maxPodz"}},
		{"damaged store", func() []string {
			dir := filepath.Join(taken.Dir, "etcd", "member", "snap")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "db"), []byte(strings.Repeat("not a database", 1000)),
				0o600); err != nil {
				t.Fatal(err)
			}
			return taken.UpCommand()
		}, []string{"etcd", "damaged", "--data-dir"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			out, err := exec.CommandContext(ctx, filepath.Join(c.Bin, "gantry"), x.setup()...).CombinedOutput()
			if err == nil || ctx.Err() != nil {
				t.Fatalf("it started:\n%s", out)
			}
			for _, want := range x.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("lacks %q:\n%s", want, out)
				}
			}
			if strings.Contains(string(out), "goroutine ") {
				t.Errorf("it crashed:\n%s", out)
			}
		})
	}
}
