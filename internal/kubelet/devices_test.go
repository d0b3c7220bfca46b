package kubelet_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/devices"
)

// deviceNode is a node with sockets in memory, which outlive a kubelet as those of plugins do.
type deviceNode struct {
	*rig
	sockets *deviceplugintest.Sockets
	plugins []*deviceplugintest.Plugin
}

// deviceTest runs a test on a node that plugins can register with.
func deviceTest(t *testing.T, test func(r *deviceNode)) {
	t.Helper()
	runTest(t, func(r *rig) {
		n := &deviceNode{rig: r, sockets: &deviceplugintest.Sockets{}}
		r.stop()
		r.with = func(o *kubelet.Options) { o.Dependencies.Sockets = n.sockets }
		r.start()
		defer func() {
			for _, p := range n.plugins {
				p.Stop()
			}
		}()
		test(n)
	})
}

func (r *deviceNode) deviceDir() string {
	return filepath.Join(r.root, "kubelet", devices.PluginDir)
}

// plugin starts a device plugin with healthy devices.
func (r *deviceNode) plugin(resource string, ids ...string) *deviceplugintest.Plugin {
	r.t.Helper()
	p := &deviceplugintest.Plugin{Resource: resource, Socket: strings.ReplaceAll(resource, "/", "_") + ".sock"}
	p.Report(deviceplugintest.Healthy(ids...)...)
	r.startPlugin(p)
	return p
}

func (r *deviceNode) startPlugin(p *deviceplugintest.Plugin) {
	r.t.Helper()
	r.plugins = append(r.plugins, p)
	if err := p.Start(context.Background(), r.deviceDir(), r.sockets); err != nil {
		r.t.Fatal(err)
	}
	r.advance(time.Second)
}

// containerWithDevices is a container that runs and asks for devices.
func containerWithDevices(name, resourceName string, count int64) v1.Container {
	c := scriptContainer(name, "sleep 3600")
	list := v1.ResourceList{v1.ResourceName(resourceName): *resource.NewQuantity(count, resource.DecimalSI)}
	c.Resources = v1.ResourceRequirements{Limits: list, Requests: list}
	return c
}

func (r *deviceNode) extended(name string) string {
	capacity, allocatable := r.k.Extended()
	c, ok := capacity[v1.ResourceName(name)]
	if !ok {
		return "none"
	}
	a := allocatable[v1.ResourceName(name)]
	return fmt.Sprintf("%s/%s", a.String(), c.String())
}

// deviceIDs are the device nodes of a container's newest record.
func (r *deviceNode) deviceIDs(container string) (out []string) {
	r.t.Helper()
	list := r.fake.ContainerConfigs(container)
	if len(list) == 0 {
		r.t.Fatalf("no container %s: %s", container, r.events.text())
	}
	for _, d := range list[len(list)-1].GetDevices() {
		out = append(out, d.GetContainerPath())
	}
	return out
}

// A plugin registers on the kubelet's socket, its resource is in the node's capacity, and a Pod
// that asks for devices gets device nodes, mounts, variables, annotations and CDI devices of the
// plugin's answer.
func TestPodGetsDevices(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		if got := r.extended("vendor.com/gpu"); got != "none" {
			t.Errorf("capacity before any plugin: got %s, want none", got)
		}
		p := r.plugin("vendor.com/gpu", "a", "b", "c")
		if got := r.extended("vendor.com/gpu"); got != "3/3" { // row: DEV-01 DEV-02
			t.Errorf("allocatable/capacity: got %s, want 3/3", got)
		}
		one := containerWithDevices("main", "vendor.com/gpu", 1)
		one.Env = []v1.EnvVar{{Name: "OWN", Value: "1"}}
		r.create(pod("one", one))
		if got, want := fmt.Sprint(p.Allocated()), "[[a]]"; got != want { // row: DEV-03
			t.Fatalf("Allocate calls: got %s, want %s; %s", got, want, r.events.text())
		}
		cfg := r.fake.ContainerConfigs("main")[0]
		got := fmt.Sprint(cfg.GetDevices(), cfg.GetMounts()[0], envOf(cfg), cfg.GetAnnotations()["example.com/devices"],
			cfg.GetCDIDevices())
		want := `[container_path:"/dev/a" host_path:"/dev/host-a" permissions:"rw"] ` +
			`container_path:"/lib/vendor" host_path:"/usr/share" readonly:true [DEVICES=[a] OWN=1][a]` +
			`[name:"vendor.com/gpu=a"]`
		if norm(got) != norm(want) { // row: DEV-04
			t.Errorf("container: got\n%s\nwant\n%s", norm(got), norm(want))
		}
		s := r.get("one").Status.ContainerStatuses[0].AllocatedResourcesStatus
		if got, want := fmt.Sprint(s), "[{vendor.com/gpu [{a Healthy <nil>}]}]"; got != want {
			t.Errorf("allocatedResourcesStatus: got %s, want %s", got, want)
		}
		// Each container of a Pod is allocated its own.
		r.create(pod("two", containerWithDevices("left", "vendor.com/gpu", 1), scriptContainer("none", runs),
			containerWithDevices("right", "vendor.com/gpu", 1)))
		if got, want := fmt.Sprint(p.Allocated()), "[[a] [b] [c]]"; got != want {
			t.Errorf("Allocate calls: got %s, want %s; %s", got, want, r.events.text())
		}
		for name, want := range map[string][]string{"left": {"/dev/b"}, "none": nil, "right": {"/dev/c"}} {
			if got := r.deviceIDs(name); !slices.Equal(got, want) {
				t.Errorf("devices of %s: got %v, want %v", name, got, want)
			}
		}
	})
}

// norm takes out the spaces, whose number protobuf's text leaves open.
func norm(s string) string { return strings.ReplaceAll(s, " ", "") }

func envOf(cfg *runtimeapi.ContainerConfig) (out []string) {
	for _, e := range cfg.GetEnvs() {
		if e.GetKey() == "DEVICES" || e.GetKey() == "OWN" {
			out = append(out, e.GetKey()+"="+string(e.GetValue()))
		}
	}
	return out
}

// Any vendor's name works, and one Pod may use several.
func TestDevicesOfManyVendors(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		names := []string{"nvidia.com/gpu", "xilinx.com/fpga-u200", "rdma.example.com/hca",
			"cores.example.com/dedicated"}
		all := containerWithDevices("all", names[0], 1)
		var own []string
		for i, name := range names {
			r.plugin(name, "d0", "d1", fmt.Sprint("own-", i))
			all.Resources.Limits[v1.ResourceName(name)] = resource.MustParse("1")
			own = append(own, fmt.Sprint("/dev/own-", i))
			c := containerWithDevices(fmt.Sprint("c", i), name, 2)
			r.create(pod(fmt.Sprint("p", i), c))
			if got := r.deviceIDs(c.Name); !slices.Equal(got, []string{"/dev/d0", "/dev/d1"}) { // row: DEV-05
				t.Errorf("%s: got %v, want both devices", name, got)
			}
		}
		all.Resources.Requests = all.Resources.Limits
		r.create(pod("all", all))
		if got := slices.Sorted(slices.Values(r.deviceIDs("all"))); !slices.Equal(got, own) { // row: DEV-05
			t.Errorf("a container that asks each vendor for one: got %v, want %v", got, own)
		}
	})
}

// A Pod that asks for more than there is, for devices that are not healthy, or whose plugin
// refuses, is refused with upstream's words, and leaves nothing taken.
//
// row: DEV-02
// row: DEV-03
func TestPodsWithoutDevicesAreRefused(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := r.plugin("vendor.com/gpu", "a", "b")
		refused := func(name string, count int64, want string) {
			t.Helper()
			r.create(pod(name, containerWithDevices(name, "vendor.com/gpu", count)))
			s := r.get(name).Status
			want = "Pod was rejected: Allocate failed due to " + want + ", which is unexpected"
			if s.Phase != v1.PodFailed || s.Reason != "UnexpectedAdmissionError" || s.Message != want {
				t.Errorf("%s: got %s %s %q, want Failed UnexpectedAdmissionError %q", name, s.Phase, s.Reason,
					s.Message,
					want)
			}
		}
		refused("many", 3, "requested number of devices unavailable for vendor.com/gpu. Requested: 3, Available: 2")
		p.Answer = func([]string) (*pluginapi.AllocateResponse, error) { return nil, fmt.Errorf("no power") }
		refused("powerless", 1, "rpc error: code = Unknown desc = no power")
		p.Answer = func([]string) (*pluginapi.AllocateResponse, error) { return &pluginapi.AllocateResponse{}, nil }
		refused("empty", 1, "no containers return in allocation response ")
		p.Answer = nil
		r.create(pod("both", containerWithDevices("both", "vendor.com/gpu", 2)))
		if got := r.deviceIDs("both"); len(got) != 2 {
			t.Errorf("after refusals: got %v, want both devices", got)
		}
		refused("late", 1, "requested number of devices unavailable for vendor.com/gpu. Requested: 1, Available: 0")
		p.Report(deviceplugintest.Device("a", pluginapi.Unhealthy), deviceplugintest.Device("b", "odd"))
		r.advance(time.Second)
		refused("sick", 1, "no healthy devices present; cannot allocate unhealthy devices vendor.com/gpu")
		if got := r.extended("vendor.com/gpu"); got != "0/2" {
			t.Errorf("allocatable/capacity: got %s, want 0/2", got)
		}
	})
}
