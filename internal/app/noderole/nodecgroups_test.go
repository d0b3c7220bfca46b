package noderole

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/logind/logindfake"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/test/expect"
)

// fakeContainerRuntime is an engine over a fake runtime of a driver, and what it has said.
func fakeContainerRuntime(t *testing.T, driver string) (*ContainerRuntime, *crifake.Fake, *[]string) {
	t.Helper()
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), CgroupDriver: driver})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	client, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	var output []string
	return &ContainerRuntime{Client: client,
		logf: func(format string, args ...any) { output = append(output, fmt.Sprintf(format, args...)) }}, f, &output
}

// The instance's own runtime has systemd keep cgroups when the configuration wants that and systemd
// runs.
//
// row: QOS-09
func TestTheOwnRuntimeGetsTheCgroupDriver(t *testing.T) {
	booted, other := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(booted, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		configured, root string
		want             kubeletresource.Driver
	}{
		{"systemd", booted, "systemd"}, {"systemd", other, "cgroupfs"},
		{"cgroupfs", booted, "cgroupfs"}, {"", booted, "cgroupfs"},
	} {
		got := ownCgroupDriver(&kubeletconfig.KubeletConfiguration{CgroupDriver: c.configured}, c.root)
		if got != c.want {
			t.Errorf("configured %q, systemd runs %t: got %s, want %s", c.configured, c.root == booted, got, c.want)
		}
	}
}

// The runtime's driver is taken; one that the configuration names otherwise is warned of, and
// systemd that is not there is a refusal.
//
// row: QOS-09
func TestCgroupDriverAtStart(t *testing.T) {
	bus, err := logindfake.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	for _, x := range []struct{ configured, runtime, bus, want, says, refuses string }{
		{"", "cgroupfs", "", "cgroupfs", "", ""},
		{"", "none", "", "cgroupfs", "", ""},
		{"systemd", "none", bus.Address, "systemd", "", ""},
		{"", "systemd", bus.Address, "systemd", "", ""},
		{"cgroupfs", "systemd", bus.Address, "systemd",
			"warning: cgroup driver mismatch: the kubelet's configuration says \"cgroupfs\" and the container " +
				"runtime uses \"systemd\"", ""},
		{"systemd", "cgroupfs", "", "cgroupfs", "SystemdCgroup = true", ""},
		{"runc", "cgroupfs", "", "", "", "neither cgroupfs nor systemd"},
		{"", "systemd", "unix:path=/nonexistent/bus", "", "", "systemd does not answer over D-Bus"},
	} {
		t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", x.bus)
		if x.refuses != "" && x.bus != "" && cli.Readable("/run/systemd/private") {
			continue // the host has a systemd
		}
		e, _, output := fakeContainerRuntime(t, x.runtime)
		c := &kubeletconfig.KubeletConfiguration{CgroupDriver: x.configured}
		m, err := e.cgroupDriver(t.Context(), c)
		if x.refuses != "" {
			if err == nil || !strings.Contains(err.Error(), x.refuses) {
				t.Errorf("%+v: got %v, want an error with %v", x, err, x.refuses)
			}
			continue
		}
		if err != nil || c.CgroupDriver != x.want || (m != nil) != (x.want == "systemd") {
			t.Errorf("%+v: got driver %q, manager %v, error %v; want the driver wanted, and a manager for systemd only",
				x, c.CgroupDriver, m, err)
		}
		if text := strings.Join(*output, "\n"); (text == "") != (x.says == "") || !strings.Contains(text, x.says) {
			t.Errorf("%+v: said %q", x, text)
		}
		if m != nil {
			m.Close()
		}
	}
}

// flatCgroups are cgroups that nobody keeps.
type flatCgroups struct{}

func (flatCgroups) Ensure(string, kubeletresource.Values) error { return nil }

func (flatCgroups) Remove(string) error { return nil }

func (flatCgroups) List(string) ([]string, error) { return nil, nil }

// What a KubeletConfiguration file says of the runtime's socket, cgroups, DNS and eviction is what
// the runtime is asked for and what is left for Pods.
//
// row: KSL-03
func TestConfigurationFileIsObeyed(t *testing.T) {
	_, f, _ := fakeContainerRuntime(t, "none")
	bus, err := logindfake.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.Address)
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
imageServiceEndpoint: unix:///run/images.sock
cgroupDriver: systemd
resolvConf: ""
clusterDNS: [10.96.0.53]
clusterDomain: test.example
evictionHard: {memory.available: 1Gi, nodefs.available: 10%%, nodefs.inodesFree: 5%%, imagefs.available: 15%%}
`, f.Endpoint())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &options.Instance{DataDir: t.TempDir(), NodeName: "n1", NodeIP: "192.0.2.1"}
	n := &KubeletOptions{ConfigSources: kubeconfig.Sources{File: file}, housekeeping: time.Second}
	if err := n.Load(p, nil); err != nil {
		t.Fatal(err)
	}
	if p.CRI.ImageEndpoint != "unix:///run/images.sock" { // row: CRI-02
		t.Errorf("images are pulled through %q, want the socket of imageServiceEndpoint", p.CRI.ImageEndpoint)
	}
	client, err := cri.Dial(t.Context(), cri.Options{Endpoint: p.Runtime})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	room := v1.ResourceList{v1.ResourcePods: resource.MustParse("110"), v1.ResourceCPU: resource.MustParse("2"),
		v1.ResourceMemory: resource.MustParse("3Gi")}
	api := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Status: v1.NodeStatus{Capacity: room, Allocatable: room}})
	role, err := n.Role(t.Context(), p, &ContainerRuntime{Client: client, logf: t.Logf}, api)
	if err != nil {
		t.Fatal(err)
	}
	defer role.slices.Close()
	left := role.allocatable()(v1.ResourceList{v1.ResourceMemory: resource.MustParse("4Gi")})
	if got := left[v1.ResourceMemory]; got.String() != "3Gi" {
		t.Errorf("evictionHard leaves %s of 4Gi", got.String())
	}
	tree, err := cgroup.Open(cgroup.Options{Root: "/gantry.slice"})
	if err != nil {
		t.Skip(err)
	}
	resources, err := role.resources(tree, 0)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubelet.New(kubelet.Options{
		Client: api, NodeName: "n1", Config: role.config, Runtime: client.Runtime(), Images: client.Images(),
		RootDir: t.TempDir(), LogDir: t.TempDir(),
		Resources: resources, Dependencies: kubelet.Dependencies{Cgroups: flatCgroups{},
			Mounts: mount.DirMounter{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "1-2"}, Spec: v1.PodSpec{
		NodeName: "n1", DNSPolicy: v1.DNSClusterFirst, RestartPolicy: v1.RestartPolicyAlways,
		EnableServiceLinks: new(bool), Containers: []v1.Container{{Name: "app", Image: "busybox:1"}},
	}}
	if _, err := api.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	box := firstSandbox(t, f)
	if d := box.GetDnsConfig(); fmt.Sprint(d.GetServers()) != "[10.96.0.53]" ||
		fmt.Sprint(d.GetSearches()) != "[default.svc.test.example svc.test.example test.example]" {
		t.Errorf(`got %v, want d.GetServers() [10.96.0.53] and d.GetSearches() "[default.svc.test.example `+
			`svc.test.example test.example]"`, d)
	}
	if got := box.GetLinux().GetCgroupParent(); !strings.HasSuffix(got, "-kubepods-besteffort-pod1_2.slice") ||
		strings.Contains(got, "/") {
		t.Errorf("cgroup parent %q", got)
	}
}

// firstSandbox is the first sandbox that the runtime is asked for.
func firstSandbox(t *testing.T, f *crifake.Fake) *runtimeapi.PodSandboxConfig {
	t.Helper()
	patience := expect.Patience(2 * time.Minute)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, call := range f.Calls() {
			if r, ok := call.Request.(*runtimeapi.RunPodSandboxRequest); ok {
				return r.Config
			}
		}
	}
	t.Fatal("no sandbox was asked for")
	return nil
}
