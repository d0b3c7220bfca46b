package cri

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crictl"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/test/expect"
)

const fakeImage = "registry.test/team/web:1"

// fakeNode is a fake runtime on a socket with one Pod in it: web, whose container app runs, and
// whose container done has ended.
type fakeNode struct {
	t       *testing.T
	runtime *crifake.Fake
	box     string
	app     string
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), Images: []crifake.Image{{Names: []string{fakeImage}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	n := &fakeNode{t: t, runtime: f}
	c, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	rt, labels := c.Runtime(), map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "shop",
		"io.kubernetes.pod.uid": "u-1"}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "u-1", Attempt: 1},
		Hostname: "web", LogDirectory: t.TempDir(), Labels: labels,
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/kubepods/burstable/podu-1"},
	}
	if n.box, err = rt.RunPodSandbox(t.Context(), config, ""); err != nil {
		t.Fatal(err)
	}
	start := func(name string, command ...string) string {
		id, err := rt.CreateContainer(t.Context(), n.box, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: fakeImage},
			Command: command, Labels: labels, LogPath: name + ".log",
		}, config)
		if err == nil {
			err = rt.StartContainer(t.Context(), id)
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	done := start("done", "sh", "-c", "echo last words; exit 3")
	n.app = start("app", "sh", "-c", "sleep 3600")
	expect.EventuallyNoError(t, "the container ends", func() error {
		s, err := rt.ContainerStatus(t.Context(), done, false)
		expect.NoError(t, err)
		if s.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			return fmt.Errorf("got state %s, want CONTAINER_EXITED", s.Status.State)
		}
		return nil
	})
	return n
}

// gantry runs `gantry cri …` and returns what it printed.
func (n *fakeNode) gantry(args ...string) (out, errOut string) {
	n.t.Helper()
	var o, e bytes.Buffer
	io := cli.IO{Out: &o, Err: &e}
	root := cli.Root(io, New(io))
	root.SetArgs(append([]string{"cri", "--runtime-endpoint", n.runtime.Endpoint(), "--data-dir", n.t.TempDir()},
		args...))
	if err := root.ExecuteContext(n.t.Context()); err != nil {
		n.t.Errorf("gantry cri %s: got %v, want no error", strings.Join(args, " "), err)
	}
	return o.String(), e.String()
}

// cells splits a table into its cells; columns are three spaces or more apart.
func cells(table string) (rows [][]string) {
	for line := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		var row []string
		for cell := range strings.SplitSeq(line, "   ") {
			if cell = strings.TrimSpace(cell); cell != "" {
				row = append(row, cell)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// crictl's commands over the runtime's socket, with crictl's columns: the seeds show six of Pods
// and five of containers, crictl of today has some more.
//
// row: CRI-16
// row: CRI-29
// row: CRI-30
// row: CRI-31
func TestAskTheRuntime(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	pods, _ := n.gantry("pods")
	rows := cells(pods)
	if want := []string{"POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT", "RUNTIME"}; len(rows) != 2 ||
		fmt.Sprint(rows[0]) != fmt.Sprint(want) {
		t.Fatalf("pods:\n%s", pods)
	}
	if r := rows[1]; r[0] != n.box[:13] || !strings.HasSuffix(r[1], " ago") ||
		fmt.Sprint(r[2:]) != "[Ready web shop 1 (default)]" {
		t.Errorf("pods: %q", r)
	}
	ps, _ := n.gantry("ps", "-a")
	rows = cells(ps)
	if want := []string{"CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD ID", "POD",
		"NAMESPACE"}; len(rows) != 3 || fmt.Sprint(rows[0]) != fmt.Sprint(want) {
		t.Fatalf("ps -a:\n%s", ps)
	}
	if r := rows[1]; r[0] != n.app[:13] || r[1] != fakeImage || !strings.HasSuffix(r[2], " ago") ||
		fmt.Sprint(r[3:]) != fmt.Sprint([]string{"Running", "app", "0", n.box[:13], "web", "shop"}) {
		t.Errorf("ps -a, the newest: %q", r)
	}
	if r := rows[2]; r[1] != fakeImage || !strings.HasSuffix(r[2], " ago") ||
		fmt.Sprint(r[3:]) != fmt.Sprint([]string{"Exited", "done", "0", n.box[:13], "web", "shop"}) {
		t.Errorf("ps -a, the one that has ended: %q", r)
	}
	if out, _ := n.gantry("ps", "-q", "--no-trunc"); out != n.app+"\n" {
		t.Errorf("ps -q: %q, want the one that runs", out)
	}
	if out, _ := n.gantry("ps", "-aq", "--name", "^done$", "--namespace", "shop", "--label",
		"io.kubernetes.pod.name=web"); strings.Count(out, "\n") != 1 {
		t.Errorf("ps by name: %q", out)
	}
	if out, _ := n.gantry("pods", "-q", "--state", "notready"); out != "" {
		t.Errorf("pods that are not ready: %q", out)
	}
	images, _ := n.gantry("images")
	if rows = cells(images); len(rows) != 2 || fmt.Sprint(rows[0]) != "[IMAGE TAG IMAGE ID SIZE]" ||
		fmt.Sprint(rows[1][:2]) != "[registry.test/team/web 1]" {
		t.Errorf("images:\n%s", images)
	}
	done, _ := n.gantry("ps", "-aq", "--state", "exited")
	if out, _ := n.gantry("logs", strings.TrimSpace(done)); out != "last words\n" {
		t.Errorf("logs: got %q, want %q", out, "last words\n")
	}
	if out, _ := n.gantry("exec", "-s", n.app[:8], "echo", "-n", "hi"); !strings.HasPrefix(out, "hi") &&
		out != "-n hi\n" {
		t.Errorf("exec -s: %q", out)
	}
	if out, _ := n.gantry("exec", n.app[:8], "sh", "-c", "echo streamed"); out != "streamed\n" {
		t.Errorf("exec: got %q, want %q", out, "streamed\n")
	}
	if out, _ := n.gantry("version"); !strings.Contains(out, "RuntimeName:  containerd\n") || !strings.Contains(out,
		"RuntimeApiVersion:  v1\n") {
		t.Errorf("version: got %q, want it to contain %q and %q", out, "RuntimeName:  containerd\n",
			"RuntimeApiVersion:  v1\n")
	}
	if out, _ := n.gantry("endpoint"); out != n.runtime.Endpoint()+"\n" {
		t.Errorf("endpoint: got %q, want %q", out, n.runtime.Endpoint()+"\n")
	}
}

// What crictl prints as JSON: the status of a thing under "status", with CRI's names of fields.
func TestInspectTheRuntime(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	for command, want := range map[string]string{"inspect " + n.app: "CONTAINER_RUNNING",
		"inspectp " + n.box: "SANDBOX_READY", "info": ""} {
		out, _ := n.gantry(strings.Fields(command)...)
		var got struct {
			Status struct {
				State      string
				Conditions []struct{ Type string }
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || got.Status.State != want {
			t.Errorf("%s: got %v, want no error and State %v\n%s", command, err, want, out)
		}
		if command == "info" && (len(got.Status.Conditions) != 2 || got.Status.Conditions[0].Type != "RuntimeReady") {
			t.Errorf("info: %+v", got)
		}
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if out, _ := n.gantry("pods", "-o", "json"); json.Unmarshal([]byte(out), &list) != nil || len(list.Items) != 1 ||
		list.Items[0].Metadata.Name != "web" {
		t.Errorf("pods -o json: %s", out)
	}
	if _, out := n.gantry("--debug", "pods", "--state", "ready"); !strings.Contains(out, "ListPodSandboxRequest {\n") ||
		!strings.Contains(out, "\"web\"") || !strings.Contains(out, "ListPodSandboxResponse {\n") {
		t.Errorf("--debug: got %s, want it to contain %q and %q and %q", out, "ListPodSandboxRequest {\n", "\"web\"",
			"ListPodSandboxResponse {\n")
	}
	out, _ := n.gantry("stats", "-s", "0", "-o", "table")
	if rows := cells(out); fmt.Sprint(rows[0]) != "[CONTAINER NAME CPU % MEM DISK INODES SWAP]" || len(rows) != 2 ||
		rows[1][1] != "app" {
		t.Errorf("stats:\n%s", out)
	}
}

func TestWrongCallsOfTheRuntime(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	for call, want := range map[string]string{
		"pods --state up":     "--state up: must be one of ready, notready",
		"ps -o wide":          "-o wide: must be table, json or yaml",
		"ps --name (":         `--name "(" is no regular expression`,
		"logs nothing":        `no container has an id that begins with "nothing"`,
		"inspect -o table 12": "-o table: must be json or yaml",
	} {
		io := cli.IO{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
		root := cli.Root(io, New(io))
		root.SetArgs(append([]string{"cri", "-r", n.runtime.Endpoint(), "--data-dir", t.TempDir()},
			strings.Fields(call)...))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
}

// The form in which the log at -v 10 shows the request for a sandbox is that of the seeds.
//
// row: CRI-32
func TestRequestInTheLogsForm(t *testing.T) {
	t.Parallel()
	got := crictl.Text(&runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web-7d8", Namespace: "prod", Uid: "5af1"}, Hostname: "web-7d8",
		LogDirectory: "/var/log/pods/prod_web-7d8_5af1",
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"},
			Searches: []string{"prod.svc.cluster.local"}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/kubepods/burstable/pod5af1",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
	}})
	// prototext varies its white space on purpose
	message := strings.Join(strings.Fields(strings.ReplaceAll(got, ":", ": ")), " ")
	want := `RunPodSandboxRequest { config: { metadata: { name: "web-7d8" uid: "5af1" namespace: "prod" } hostname: ` +
		`"web-7d8" log_directory: "/var/log/pods/prod_web-7d8_5af1" ` +
		`dns_config: { servers: "10.96.0.10" searches: "prod.svc.cluster.local" } linux: { cgroup_parent: ` +
		`"/kubepods/burstable/pod5af1" security_context: { namespace_options: { pid: CONTAINER } } } } }`
	if message != want {
		t.Errorf("the request reads\n%s\nwant\n%s", message, want)
	}
}

// API server, kubelet and runtime are compared; a static Pod is known to the API by its mirror.
//
// row: CRI-34
func TestSidesCompared(t *testing.T) {
	t.Parallel()
	at := func(name, uid string, phase corev1.PodPhase, notes map[string]string) crictl.PodRecord {
		return podSeen(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
			UID: types.UID("u-" + uid), Annotations: notes}, Status: corev1.PodStatus{Phase: phase}})
	}
	box := func(name, uid string, state runtimeapi.PodSandboxState) *runtimeapi.PodSandbox {
		return &runtimeapi.PodSandbox{Metadata: &runtimeapi.PodSandboxMetadata{Namespace: "shop", Name: name,
			Uid: "u-" + uid}, State: state}
	}
	ready, not := runtimeapi.PodSandboxState_SANDBOX_READY, runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	mirror := map[string]string{corev1.MirrorPodAnnotationKey: "u-file"}
	sides := []crictl.Source{
		{Name: "API", Pods: []crictl.PodRecord{at("both", "1", "Running", nil), at("lost", "2", "Running", nil),
			at("ended", "3", "Succeeded", nil), at("young", "4", "Pending", nil),
			at("etcd-n1", "5", "Running", mirror)}},
		{Name: "KUBELET", Pods: []crictl.PodRecord{at("both", "1", "Running", nil), at("lost", "2", "Running", nil),
			at("etcd-n1", "file", "Running", nil)}},
		runtimeSide([]*runtimeapi.PodSandbox{box("both", "1", ready), box("both", "1", not), box("forced", "9", ready),
			box("old", "8", not), box("etcd-n1", "file", ready)}),
	}
	var got []string
	for _, d := range crictl.Compare(sides) {
		got = append(got, fmt.Sprint(d.Name, d.States))
	}
	if want := "[forced[- - Ready] lost[Running Running -]]"; fmt.Sprint(got) != want {
		t.Errorf("differences %v, want %s", got, want)
	}
	sides[1] = crictl.Source{Name: "KUBELET", Error: "connection refused"}
	got = nil
	for _, d := range crictl.Compare(sides) {
		got = append(got, fmt.Sprint(d.Name, d.States))
	}
	if want := "[forced[- ? Ready] lost[Running ? -]]"; fmt.Sprint(got) != want {
		t.Errorf("without the kubelet: %v, want %s", got, want)
	}
	var out bytes.Buffer
	if err := crictl.WriteDifferences(&out, sides, crictl.Compare(sides)); err != nil {
		t.Fatal(err)
	}
	if rows := cells(out.String()); fmt.Sprint(rows[0]) != "[NAMESPACE NAME POD UID API KUBELET RUNTIME]" {
		t.Errorf(`got %s, want rows[0] "[NAMESPACE NAME POD UID API KUBELET RUNTIME]"`, out.String())
	}
}
