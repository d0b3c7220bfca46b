package partition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/up"
)

// fixture is a server, its controllers and a node as three processes.
type fixture struct {
	*up.Roles
	t       *testing.T
	dir     string // of the node
	server  string // directory of the API server
	port    int
	kubelet int
	net     *ports.Network
}

// begin skips where no containers can run.
func begin(t *testing.T) *fixture {
	t.Helper()
	bin := binaries.Programs(t)
	dir, err := os.MkdirTemp("/tmp", "gantry-partition-")
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{Roles: &up.Roles{TB: t, Bin: bin}, t: t, dir: filepath.Join(dir, "node"),
		server: filepath.Join(dir, "server")}
	for _, p := range []*int{&w.port, &w.kubelet} {
		if *p, err = ports.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if w.net, err = ports.ReserveNetwork("gxf"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer w.net.Release()
		w.End()
		out, err := w.Command("clean", "--data-dir", w.dir, "--data", "--bridge", w.net.Bridge, "--pod-cidr",
			w.net.PodCIDR).CombinedOutput()
		if err != nil {
			t.Errorf("clean: %v\n%s", err, out)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *fixture) serve() (kill func()) {
	p := w.Start("server", "--data-dir", w.server, "--secure-port", fmt.Sprint(w.port), "--bind-address", "127.0.0.1",
		"--node-name", "node-1")
	w.eventually("the API server answers", time.Minute,
		func() bool { return w.try("", "get", "--raw", "/readyz") == "ok" })
	return p.Kill
}

func (w *fixture) command(stdin string, args ...string) *exec.Cmd {
	c := w.Command(append([]string{"kubectl", "--kubeconfig", filepath.Join(w.server, "kubeconfig"),
		"--request-timeout=5s"}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	return c
}

// try is what kubectl says; empty when it fails.
func (w *fixture) try(stdin string, args ...string) string {
	out, err := w.command(stdin, args...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

func (w *fixture) kubectl(stdin string, args ...string) string {
	w.t.Helper()
	out, err := w.command(stdin, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (w *fixture) eventually(what string, within time.Duration, holds func() bool) {
	w.t.Helper()
	up.Eventually(w.t, within, what, func() (string, bool) { return "it does not hold", holds() }, w.Roles)
}

// pod is one Pod as the API has it.
func (w *fixture) pod(name string) *v1.Pod {
	p := &v1.Pod{}
	if out := w.try("", "get", "pod", name, "-o", "json"); out == "" || json.Unmarshal([]byte(out), p) != nil {
		return nil
	}
	return p
}

// log is what the Pod's container and its probe have written, as it stands on the node.
func (w *fixture) log(p *v1.Pod) string {
	files, err := filepath.Glob(filepath.Join(w.dir, "kubelet", "logs", "default_"+p.Name+"_"+string(p.UID), "app",
		"*.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			w.t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}

const manifest = `{apiVersion: v1, kind: Pod, metadata: {name: NAME}, spec: {terminationGracePeriodSeconds: 1,
    containers: [{
  name: app, image: "docker.io/library/busybox:1.28", command: [sh, -c,
    "trap 'exit 0' TERM; echo begun; while [ ! -e /end/now ]; do sleep 0.1; done; rm /end/now; exit 3"],
  volumeMounts: [{name: end, mountPath: /end}],
  livenessProbe: {exec: {command: [sh, -c, "echo probed > /proc/1/fd/1"]}, periodSeconds: 1}}],
  volumes: [{name: end, emptyDir: {}}]}}`

// The node's API server is killed. Its Pods run on and are probed, a container that ends is started
// again, and when the server is back it learns of it, and a Pod that is deleted then is taken
// away. The doctor finds nothing wrong with such a node and lists its goroutines; the node has one
// port and is what its file says.
//
// row: KSL-02
// row: KSL-11
// row: KSL-12
// row: KSL-34
// row: KAP-01
func TestNodeCutOff(t *testing.T) {
	t.Parallel()
	w := begin(t)
	kill := w.serve()
	in := func(name string) string { return filepath.Join(w.server, name) }
	// the server is killed and may take longer to come back than a lease is held
	w.Start("controllers", "--kubeconfig", in("controllers.kubeconfig"), "--leader-elect=false")
	w.Start("scheduler", "--secure-port", "0", "--kubeconfig", in("scheduler.kubeconfig"))
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config,
		[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 77\nclusterDomain: "+
			"cut.example\nclusterDNS: [10.96.0.10]\nimageMaximumGCAge: 100h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Start("kubelet", "--config", config, "--kubeconfig", in("kubelet.kubeconfig"), "--data-dir", w.dir, "--bin-dir",
		w.Bin, "--hostname-override", "node-1", "--node-ip", "127.0.0.1",
		"--kubelet-port", fmt.Sprint(w.kubelet), "--bridge", w.net.Bridge, "--pod-cidr", w.net.PodCIDR, "-v", "2",
		"--client-ca-file", in("pki/ca.crt"), "--tls-cert-file", in("pki/kubelet.crt"), "--tls-private-key-file",
		in("pki/kubelet.key"))
	w.eventually("node ready", time.Minute, func() bool {
		return w.try("", "get", "node", "node-1", "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}") ==
			"True"
	})
	w.configured()
	w.listens("kubelet --config " + config)
	tar := filepath.Join(t.TempDir(), "busybox.tar")
	if err := images.Archive(tar, images.Select(images.Standard(), "docker.io/library/busybox:1.28")); err != nil {
		t.Fatal(err)
	}
	w.Run("image", "import", "--data-dir", w.dir, tar)
	w.eventually("service account", time.Minute,
		func() bool { return w.try("", "get", "serviceaccount", "default") != "" })
	for _, name := range []string{"stays", "ends", "goes"} {
		w.kubectl(strings.ReplaceAll(manifest, "NAME", name), "apply", "-f", "-")
	}
	pods := map[string]*v1.Pod{}
	for _, name := range []string{"stays", "ends", "goes"} {
		w.eventually(name+" running", time.Minute,
			func() bool { p := w.pod(name); pods[name] = p; return p != nil && p.Status.Phase == v1.PodRunning })
	}
	kill()
	before := strings.Count(w.log(pods["stays"]), "probed")
	if err := os.WriteFile(filepath.Join(w.dir, "kubelet", "pods", string(pods["ends"].UID), "volumes",
		"kubernetes.io~empty-dir", "end", "now"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.eventually("the ended container runs again without an API server", time.Minute,
		func() bool { return strings.Count(w.log(pods["ends"]), "begun") == 2 })
	w.eventually("probes go on without an API server", time.Minute,
		func() bool { return strings.Count(w.log(pods["stays"]), "probed") >= before+5 })
	if n := strings.Count(w.log(pods["stays"]), "begun"); n != 1 {
		t.Errorf("a healthy container was started %d times", n)
	}
	w.serve()
	w.kubectl("", "delete", "pod", "goes", "--wait=false")
	w.eventually("goes is gone", time.Minute,
		func() bool { return w.try("", "get", "pods", "-o", "name") != "" && w.pod("goes") == nil })
	w.eventually("the restart is told", time.Minute, func() bool {
		p := w.pod("ends")
		return p != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 &&
			p.Status.ContainerStatuses[0].State.Running != nil
	})
	p := w.pod("stays")
	if p == nil || p.Status.ContainerStatuses[0].RestartCount != 0 ||
		p.Status.ContainerStatuses[0].ContainerID != pods["stays"].Status.ContainerStatuses[0].ContainerID {
		t.Errorf("stays: %+v", p)
	}
	w.examined(in("kubeconfig"))
}

// configured reads the node's configuration from its port, and what it does to the Node.
func (w *fixture) configured() {
	w.t.Helper()
	var page struct{ Kubeletconfig map[string]any }
	if err := json.Unmarshal([]byte(w.kubectl("", "get", "--raw", "/api/v1/nodes/node-1/proxy/configz")), &page); err !=
		nil {
		w.t.Fatal(err)
	}
	c := page.Kubeletconfig
	if got := fmt.Sprint([]any{c["maxPods"], c["clusterDomain"], c["imageMaximumGCAge"], c["cgroupDriver"]}); got !=
		"[77 cut.example 100h0m0s cgroupfs]" {
		w.t.Errorf("configz: got %s, want %s", got, "[77 cut.example 100h0m0s cgroupfs]")
	}
	if got := w.kubectl("", "get", "node", "node-1", "-o", "jsonpath={.status.capacity.pods}"); got != "77" {
		w.t.Errorf("capacity of %s Pods", got)
	}
}

// listens looks at which ports the node's process listens on: its own and no other.
func (w *fixture) listens(line string) {
	w.t.Helper()
	dir := fmt.Sprintf("/proc/%d", w.process(line))
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		w.t.Fatal(err)
	}
	own := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(dir + "/fd/" + fd.Name()); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	var ports []string
	for _, table := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile(dir + "/net/" + table)
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && own[f[9]] { // LISTEN
				ports = append(ports, f[1][strings.LastIndexByte(f[1], ':')+1:])
			}
		}
	}
	if want := fmt.Sprintf("%04X", w.kubelet); len(ports) != 1 || ports[0] != want {
		w.t.Errorf("listens on ports %v, want %s only", ports, want)
	}
}

// process is the one of gantry with a command line that begins so.
func (w *fixture) process(line string) int {
	w.t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range found {
		raw, err := os.ReadFile(f)
		pid := 0
		if err == nil && strings.Contains(strings.ReplaceAll(string(raw), "\x00", " "), "/gantry "+line) {
			if _, err := fmt.Sscanf(f, "/proc/%d/cmdline", &pid); err != nil {
				w.t.Fatal(err)
			}
			return pid
		}
	}
	w.t.Fatalf("gantry %s does not run", line)
	return 0
}

// examined asks the doctor about the node, whose disk may be full, and looks for what must be well.
func (w *fixture) examined(kubeconfig string) {
	w.t.Helper()
	out, err := w.Command("doctor", "--data-dir", w.dir, "--kubeconfig", kubeconfig, "--exec", "pod/stays", "-o",
		"json").Output()
	var found []struct{ Check, About, Level, Text string }
	if bad := json.Unmarshal(out, &found); bad != nil {
		w.t.Fatalf("got %v, %v:, want no bad\n%s", err, bad, out)
	}
	well := map[string]int{}
	for _, f := range found {
		if f.Level == "ok" {
			well[f.Check]++
		} else if f.Check != "disk" && f.Level != "note" {
			w.t.Errorf("got %+v, want a note (other levels only for the disk)", f)
		}
	}
	for check, n := range map[string]int{"runtime": 1, "cgroup-driver": 1, "api-server": 1, "clock": 1, "nodes": 1,
		"kubelet-port": 1, "kubelet-access": 1, "goroutines": 1, "exec-path": 4} {
		if well[check] != n {
			w.t.Errorf("%d findings of %s are well, want %d:\n%s", well[check], check, n, out)
		}
	}
}
