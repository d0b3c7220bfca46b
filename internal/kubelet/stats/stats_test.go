package stats_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet/stats"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/pod/usage"
	"github.com/gantry-project/gantry/test/metriclist"
)

// cgroups is a tree of measured paths.
type cgroups map[string]usage.Cgroup

func (c cgroups) Measure(path string) (usage.Cgroup, error) {
	u, ok := c[path]
	if !ok {
		return u, fs.ErrNotExist
	}
	u.At = time.Unix(1000, 0)
	return u, nil
}

func (c cgroups) Processes(path string) ([]int, error) { return []int{77}, nil }

func (c cgroups) List(parent string) ([]string, error) {
	var out []string
	for path := range c {
		if filepath.Dir(path) == parent {
			out = append(out, filepath.Base(path))
		}
	}
	return out, nil
}

// host is a machine that uses as much as the test says.
type host struct {
	nanos uint64
	at    time.Time
	err   error
}

func (h *host) Node() (stats.Sample, error) {
	h.at = h.at.Add(2 * time.Second)
	h.nanos += 1e9
	return stats.Sample{Devices: []usage.Device{{Name: "/dev/vda", ReadBytes: 512, WriteBytes: 1024, Reads: 7,
		Writes: 9}}, At: h.at, CPUNanos: h.nanos, WorkingSet: 5, Processes: 3, SwapTotal: 100, Swap: 40,
		Pressure: usage.Pressure{CPU: &usage.Stalls{Some: usage.Stall{TotalMicros: 3}}}}, h.err
}

func (h *host) NetworkInterfaces(pid int) ([]usage.NetworkInterface, error) {
	if pid == 77 {
		return []usage.NetworkInterface{{Name: "eth0", RxBytes: 11}}, nil
	}
	return []usage.NetworkInterface{{Name: "veth1", RxBytes: 1}, {Name: "ens3", RxBytes: 2}}, nil
}
func (h *host) DefaultInterface() string { return "ens3" }
func (h *host) Disk(string) (usage.Disk, error) {
	return usage.Disk{Capacity: 1000, Available: 600, Used: 400, Inodes: 50, InodesFree: 40}, nil
}
func (h *host) Space(dir string) (usage.Space, error) { return proc.Space(dir) }
func (h *host) BlockSize(string) (uint64, error)      { return 4096, nil }

type testNode struct {
	*testing.T
	root    string
	pods    []*v1.Pod
	cgroups cgroups
	host    *host
	ids     [2]string // of sandbox and container
	c       *stats.Collector
	tier    string            // of the Pods' cgroups, below that of all Pods
	system  map[string]string // cgroups of kubelet and runtime
}

func newTestNode(t *testing.T) *testNode {
	t.Helper()
	w := &testNode{T: t, root: t.TempDir(), cgroups: cgroups{}, host: &host{at: time.Unix(900, 0)}}
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), Images: []crifake.Image{{Names: []string{"img:1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	client, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	w.c = stats.New(stats.Deps{
		NodeName: "n1", Started: time.Unix(1, 0), List: func() []*v1.Pod { return w.pods }, Mounted: w.mounted,
		Runtime: client.Runtime(), Images: client.Images(), Cgroups: w.cgroups, Host: w.host, Drivers: askDriver,
		Machine: stats.Machine{ID: "m", CPUs: 4, MemoryBytes: 1 << 30},
		Paths: stats.Paths{Root: w.root, Logs: filepath.Join(w.root, "logs"), Pods: "/g/kubepods",
			PodPath: func(p *v1.Pod) string { return "/g/kubepods" + w.tier + "/pod" + string(p.UID) }},
		System: func() map[string]string { return w.system },
	})
	w.run(client)
	return w
}

// askDriver is what CSI drivers say of their volumes: the one named silent does not.
func askDriver(_ context.Context, v volume.DriverVolume, _ string) (usage.Disk, bool, error) {
	if v.Name == "silent" {
		return usage.Disk{}, false, nil
	}
	return usage.Disk{Capacity: 70, Available: 60, Used: 10, Inodes: 9, InodesFree: 4}, true, nil
}

func (w *testNode) run(client *cri.Client) {
	w.Helper()
	labels := map[string]string{"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "a",
		"io.kubernetes.pod.uid": "u1"}
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "a",
		Uid: "u1"}, Labels: labels, LogDirectory: w.TempDir()}
	id, err := client.Runtime().RunPodSandbox(w.Context(), sandbox, "")
	if err != nil {
		w.Fatal(err)
	}
	labels["io.kubernetes.container.name"] = "app"
	c, err := client.Runtime().CreateContainer(w.Context(), id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "img:1"},
		Command: []string{"sh", "-c", "run"}, Labels: labels,
	}, sandbox)
	if err != nil {
		w.Fatal(err)
	}
	if err := client.Runtime().StartContainer(w.Context(), c); err != nil {
		w.Fatal(err)
	}
	w.ids = [2]string{id, c}
	w.pods = []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: types.UID("u1")},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "app"}},
			Volumes: []v1.Volume{{Name: "data"},
				{Name: "claimed",
					VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
						ClaimName: "c1"}}}},
		}}}
	for _, file := range []string{"pods/u1/volumes/kubernetes.io~empty-dir/data/file",
		"pods/u1/volumes/kubernetes.io~local/claimed/file", "logs/a_web_u1/app/0.log"} {
		path := filepath.Join(w.root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 5000), 0o644); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *testNode) mounted(uid types.UID) map[string]volume.Mounted {
	at := func(kind, name string, size volume.Size) volume.Mounted {
		return volume.Mounted{Name: name, Path: filepath.Join(w.root, "pods", string(uid), "volumes", kind, name),
			Size: size}
	}
	csi := func(driver string) volume.Mounted {
		m := at("kubernetes.io~csi", driver, volume.SizeOfMount)
		m.Driver.Name = driver
		return m
	}
	return map[string]volume.Mounted{
		"asked": csi("asked"), "silent": csi("silent"),
		"data":    at("kubernetes.io~empty-dir", "data", volume.SizeOfFiles),
		"claimed": at("kubernetes.io~local", "claimed", volume.SizeOfMount),
		"raw":     at("kubernetes.io~local", "raw", volume.SizeOfBlock), "path": at("", "path", volume.SizeUnknown),
	}
}

// What upstream measures of a volume of each kind: files are added up on the file system they lie
// on, a mount is the whole file system, a device has a capacity, a path of the host has nothing. A
// CSI volume is what its driver says, and left out when that says nothing.
//
// row: KAP-04
func TestVolumesAreMeasuredByTheirKind(t *testing.T) {
	w := newTestNode(t)
	claim := func(name string) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	w.pods[0].Spec.Volumes = []v1.Volume{
		{Name: "data"}, {Name: "claimed", VolumeSource: claim("c1")}, {Name: "raw", VolumeSource: claim("c2")},
		{Name: "path", VolumeSource: claim("c3")}, {Name: "unused", VolumeSource: claim("c4")},
		{Name: "asked", VolumeSource: claim("c5")}, {Name: "silent", VolumeSource: claim("c6")},
	}
	s, err := w.c.Full(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range s.Summary().Pods[0].VolumeStats {
		of := "-"
		if v.PVCRef != nil {
			of = v.PVCRef.Namespace + "/" + v.PVCRef.Name
		}
		got = append(got, fmt.Sprintf("%s %s capacity %d available %d used %v inodes %d free %d used %d",
			v.Name, of, *v.CapacityBytes, *v.AvailableBytes, *v.UsedBytes > 5000, *v.Inodes, *v.InodesFree,
			*v.InodesUsed))
	}
	want := []string{
		"data - capacity 1000 available 600 used true inodes 50 free 40 used 2",
		"claimed a/c1 capacity 1000 available 600 used false inodes 50 free 40 used 10",
		"raw a/c2 capacity 4096 available 0 used false inodes 0 free 0 used 0",
		"asked a/c5 capacity 70 available 60 used false inodes 9 free 4 used 5",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

// measured gives the Pod real cgroups.
func (w *testNode) measured() {
	pod := "/g/kubepods/podu1"
	w.cgroups["/"] = usage.Cgroup{}
	w.cgroups["/g/kubepods"] = usage.Cgroup{Memory: usage.Memory{WorkingSet: 99}}
	w.cgroups[pod] = usage.Cgroup{CPU: usage.CPU{Nanos: 3e9, QuotaMicros: -1},
		Memory: usage.Memory{Bytes: 100, WorkingSet: 60}, Processes: 2}
	w.cgroups[pod+"/"+w.ids[0]] = usage.Cgroup{CPU: usage.CPU{QuotaMicros: -1}}
	w.cgroups[pod+"/cri-containerd-"+w.ids[1]+".scope"] = usage.Cgroup{
		CPU:      usage.CPU{Nanos: 25e8, QuotaMicros: 50000, PeriodMicros: 100000, ThrottledPeriods: 4, Shares: 512},
		Memory:   usage.Memory{Bytes: 80, WorkingSet: 50, RSS: 20, Swap: 2},
		Limits:   usage.Limits{Memory: 90, Swap: 10, HasSwap: true},
		Pressure: usage.Pressure{CPU: &usage.Stalls{Some: usage.Stall{TotalMicros: 2000000}}},
		Devices:  []usage.Device{{Major: 8, Name: "/dev/sda", ReadBytes: 4096}},
	}
}

// row: KAP-04
// row: CRI-33
func TestSummaryFromTheRuntime(t *testing.T) {
	w := newTestNode(t)
	s, err := w.c.Full(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := s.Summary().Pods
	if len(p) != 1 || p[0].PodRef.UID != "u1" || len(p[0].Containers) != 1 {
		t.Fatalf("pods: got %+v, want one of them and [0].PodRef.UID u1 and [0].Containers of length 1", p)
	}
	c := p[0].Containers[0]
	if c.Name != "app" || *c.Memory.WorkingSetBytes != 8<<20 || *c.Memory.UsageBytes != 8<<20 ||
		*c.Memory.RSSBytes != 8<<20 || *c.CPU.UsageNanoCores != 1e7 || *p[0].CPU.UsageNanoCores != 1e7 ||
		*p[0].Memory.WorkingSetBytes != 8<<20 || *p[0].Memory.RSSBytes != 8<<20 {
		t.Errorf("numbers are not the runtime's: %+v", p[0])
	}
}

// The summary tells of kubelet and runtime by their cgroups, beside the Pods together: of the root
// the machine's figures, of one that is not there nothing. Cgroups of QoS classes are measured too.
//
// row: KAP-04
func TestSystemContainers(t *testing.T) {
	w := newTestNode(t)
	w.measured()
	w.tier = "/burstable"
	w.cgroups["/g/kubepods/burstable"] = usage.Cgroup{Memory: usage.Memory{WorkingSet: 31}}
	w.cgroups["/g/kubepods/burstable/podu1"] = usage.Cgroup{Memory: usage.Memory{WorkingSet: 30}}
	w.cgroups["/system/runtime"] = usage.Cgroup{Memory: usage.Memory{WorkingSet: 7}}
	for _, c := range []struct {
		system map[string]string
		want   map[string]uint64 // working set by name
	}{
		{nil, map[string]uint64{"pods": 99}},
		{map[string]string{"kubelet": "/", "runtime": "/system/runtime"},
			map[string]uint64{"kubelet": 5, "runtime": 7, "pods": 99}},
		{map[string]string{"kubelet": "/system/runtime", "runtime": "/system/runtime"},
			map[string]uint64{"kubelet": 7, "runtime": 7, "pods": 99}},
		{map[string]string{"kubelet": "/gone"}, map[string]uint64{"pods": 99}},
	} {
		w.system = c.system
		s, err := w.c.CPUAndMemory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uint64{}
		for _, x := range s.Summary().Node.SystemContainers {
			got[x.Name] = *x.Memory.WorkingSetBytes
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%v: got working sets %v, want %v", c.system, got, c.want)
		}
		if !slices.ContainsFunc(s.Tiers, func(t stats.Tier) bool { return t.Path == "/g/kubepods/burstable" }) {
			t.Errorf("got tiers %+v, want that of the QoS class among them", s.Tiers)
		}
	}
}

// row: KAP-04
func TestSummaryFromCgroups(t *testing.T) {
	w := newTestNode(t)
	w.measured()
	if _, err := w.c.Full(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := w.c.Full(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := s.Summary()
	n, p := sum.Node, sum.Pods[0]
	if *n.CPU.UsageNanoCores != 5e8 || *n.Memory.WorkingSetBytes != 5 || *n.Swap.SwapAvailableBytes != 60 ||
		*n.Rlimit.NumOfRunningProcesses != 3 || n.CPU.PSI.Some.Total != 3000 {
		t.Errorf("node %+v", n)
	}
	if n.Network.Name != "ens3" || len(n.Network.Interfaces) != 1 || n.Runtime == nil || *n.Fs.CapacityBytes != 1000 ||
		len(n.SystemContainers) != 1 || *n.SystemContainers[0].Memory.WorkingSetBytes != 99 {
		t.Errorf("node's network, disk or pods: %+v", n)
	}
	if *p.CPU.UsageCoreNanoSeconds != 3e9 || *p.Memory.UsageBytes != 100 || p.Memory.AvailableBytes != nil ||
		*p.Network.RxBytes != 11 || *p.ProcessStats.ProcessCount != 2 {
		t.Errorf("pod %+v", p)
	}
	c := p.Containers[0]
	if *c.CPU.UsageCoreNanoSeconds != 25e8 || *c.Memory.AvailableBytes != 40 || *c.Swap.SwapAvailableBytes != 8 ||
		c.CPU.PSI.Some.Total != 2e9 || *c.Logs.UsedBytes < 5000 {
		t.Errorf("container %+v", c)
	}
	if len(p.VolumeStats) != 2 || p.VolumeStats[0].Name != "data" || *p.VolumeStats[0].UsedBytes < 5000 ||
		p.VolumeStats[0].PVCRef != nil || p.VolumeStats[1].PVCRef.Name != "c1" {
		t.Errorf("volumes %+v", p.VolumeStats)
	}
	if used := *p.EphemeralStorage.UsedBytes; used < *c.Logs.UsedBytes+*p.VolumeStats[0].UsedBytes ||
		used > *c.Logs.UsedBytes+2**p.VolumeStats[0].UsedBytes+10000 {
		t.Errorf("ephemeral storage %d is not logs, layers and what is not claimed", used)
	}
	brief, err := w.c.CPUAndMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b := brief.Summary(); b.Node.Fs != nil || b.Pods[0].Network != nil || b.Pods[0].VolumeStats != nil ||
		b.Pods[0].CPU == nil {
		t.Errorf("more or less than processors and memory: %+v", b)
	}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	text := rec.Body.String()
	p := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := p.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Fatalf("not Prometheus text: %v\n%s", err, text)
	}
	return text
}

func expectLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, "\n"+l) {
			t.Errorf("missing: %s", l)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// metrics-server reads these families with these labels, and wants a time stamp on each.
//
// row: KAP-04
func TestResourceMetrics(t *testing.T) {
	w := newTestNode(t)
	w.measured()
	text := scrape(t, stats.Handler(w.c.CPUAndMemory, stats.Resource))
	expectLines(t, text,
		`container_cpu_usage_seconds_total{container="app",namespace="a",pod="web"} 2.5 1000000`,
		`container_memory_working_set_bytes{container="app",namespace="a",pod="web"} 50 1000000`,
		`container_swap_usage_bytes{container="app",namespace="a",pod="web"} 2 1000000`,
		`container_swap_limit_bytes{container="app",namespace="a",pod="web"} 10 1000000`,
		`container_start_time_seconds{container="app",namespace="a",pod="web"} `,
		`pod_cpu_usage_seconds_total{namespace="a",pod="web"} 3 1000000`,
		`pod_memory_working_set_bytes{namespace="a",pod="web"} 60 1000000`,
		`node_cpu_usage_seconds_total 1 902000`, `node_memory_working_set_bytes 5 902000`,
		`node_swap_usage_bytes 40 902000`,
		`resource_scrape_error 0`, `scrape_error 0`)
	w.host.err = errors.New("no")
	if text := scrape(t, stats.Handler(w.c.CPUAndMemory, stats.Resource)); !strings.Contains(text,
		"\nresource_scrape_error 1\n") || strings.Contains(text, "node_cpu") {
		t.Errorf("a failure shows as %s", text)
	}
}

func TestCadvisorMetrics(t *testing.T) {
	w := newTestNode(t)
	w.measured()
	text := scrape(t, stats.Handler(w.c.Full, stats.Cadvisor))
	pod := `id="/g/kubepods/podu1",image="",`
	app := `id="/g/kubepods/podu1/cri-containerd-` + w.ids[1] + `.scope",image="img:1",`
	who := `name="` + w.ids[1] + `",namespace="a",pod="web"}`
	expectLines(t, text,
		`container_cpu_usage_seconds_total{container="app",cpu="total",`+app+who+` 2.5 1000000`,
		`container_cpu_usage_seconds_total{container="",cpu="total",`+pod+`name="",namespace="a",pod="web"} 3 1000000`,
		`container_memory_working_set_bytes{container="app",`+app+who+` 50 1000000`,
		`container_memory_usage_bytes{container="app",`+app+who+` 80 1000000`,
		`container_cpu_cfs_throttled_periods_total{container="app",`+app+who+` 4 1000000`,
		`container_spec_cpu_quota{container="app",`+app+who+` 50000`,
		`container_spec_memory_limit_bytes{container="app",`+app+who+` 90`,
		`container_fs_reads_bytes_total{container="app",device="/dev/sda",`+app+who+` 4096 1000000`,
		`container_pressure_cpu_waiting_seconds_total{container="app",`+app+who+` 2 1000000`,
		`container_network_receive_bytes_total{container="",id="/g/kubepods/podu1/`+w.ids[0]+
			`",image="",interface="eth0",name="`+w.ids[0]+`",namespace="a",pod="web"} 11 1000000`,
		`machine_cpu_cores{boot_id="",machine_id="m",system_uuid=""} 4`,
		`machine_memory_bytes{boot_id="",machine_id="m",system_uuid=""} 1.073741824e+09`)
	if strings.Contains(text, `container_spec_cpu_quota{container="",`) {
		t.Error("a cgroup without quota has one")
	}
}

func TestAPodTheKubeletDoesNotKnow(t *testing.T) {
	w := newTestNode(t)
	w.measured()
	w.pods = nil
	s, err := w.c.CPUAndMemory(context.Background())
	if err != nil || len(s.Pods) != 1 || s.Pods[0].Measured.Use == nil {
		t.Errorf("%+v %v: the runtime knows it", s, err)
	}
}

// The lists of the page of metrics are what /metrics/resource and /metrics/cadvisor serve.
func TestMetricsAreListed(t *testing.T) {
	w := newTestNode(t)
	w.measured()
	s, err := w.c.Full(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	metriclist.Check(t, "kubelet-resource", true, metriclist.Of(stats.Resource(s)))
	metriclist.Check(t, "kubelet-cadvisor", true, metriclist.Of(stats.Cadvisor(s)))
}
