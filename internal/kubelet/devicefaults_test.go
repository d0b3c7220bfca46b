package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
)

const gpu = "vendor.com/gpu"

// Devices of init containers are taken over by later containers of the Pod, those of sidecars are
// not, and app containers share none.
//
// row: DEV-03
func TestInitContainersDevicesAreTakenOver(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		r.plugin(gpu, "a", "b", "c")
		first, side := containerWithDevices("first", gpu, 2), containerWithDevices("side", gpu, 1)
		first.Command = []string{"true"}
		always := v1.ContainerRestartPolicyAlways
		side.RestartPolicy = &always
		p := pod("p", containerWithDevices("one", gpu, 1), containerWithDevices("two", gpu, 1))
		p.Spec.InitContainers = []v1.Container{first, side}
		r.create(p)
		r.advance(5 * time.Second)
		got := fmt.Sprint(r.deviceIDs("first"), r.deviceIDs("side"), r.deviceIDs("one"), r.deviceIDs("two"))
		if want := "[/dev/a /dev/b] [/dev/a] [/dev/b] [/dev/c]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The plugin chooses among the devices that are free; what it names beside them is ignored. Before
// each start of a container it is told.
//
// row: DEV-03
func TestPluginPrefersAndPreStartsContainers(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := &deviceplugintest.Plugin{Resource: gpu, Socket: "gpu.sock", Options: &pluginapi.DevicePluginOptions{
			GetPreferredAllocationAvailable: true, PreStartRequired: true}}
		asked := ""
		p.Prefer = func(q *pluginapi.ContainerPreferredAllocationRequest) []string {
			asked += fmt.Sprint(q.GetAvailableDeviceIDs(), q.GetMustIncludeDeviceIDs(), q.GetAllocationSize())
			return []string{"a", "stolen", "c"}
		}
		p.Report(deviceplugintest.Healthy("a", "b", "c")...)
		r.startPlugin(p)
		r.create(pod("p", containerWithDevices("one", gpu, 1)))
		r.create(pod("q", containerWithDevices("two", gpu, 1)))
		if got, want := asked, "[a b c][]1[b c][]1"; norm(got) != norm(want) {
			t.Errorf("questions: got %s, want %s", got, want)
		}
		if got, want := fmt.Sprint(r.deviceIDs("one"), r.deviceIDs("two"), p.Started()),
			"[/dev/a] [/dev/c] [[a] [c]]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// The health of a device is shown in the Pod that has it as soon as the plugin tells; the Pod goes
// on.
func TestDeviceHealthIsShown(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := r.plugin(gpu, "a", "b")
		r.create(pod("p", containerWithDevices("one", gpu, 1)))
		health := func() string {
			return fmt.Sprint(r.get("p").Status.ContainerStatuses[0].AllocatedResourcesStatus)
		}
		for _, h := range []string{pluginapi.Unhealthy, pluginapi.Healthy, pluginapi.Unhealthy} {
			p.Report(deviceplugintest.Device("a", h), deviceplugintest.Device("b", pluginapi.Healthy))
			r.advance(time.Second)
			if got, want := health(), "[{vendor.com/gpu [{a "+h+" <nil>}]}]"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if got := r.get("p").Status.Phase; got != v1.PodRunning {
			t.Errorf("phase: got %s, want Running", got)
		}
	})
}

// A resource whose plugin is gone has no allocatable device, no device at all after the grace
// period, and what containers have stays theirs when the plugin comes back.
//
// row: DEV-01
func TestPluginGoesAndComesBack(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := r.plugin(gpu, "a", "b")
		r.create(pod("p", containerWithDevices("one", gpu, 1)))
		want := func(what, want string) {
			t.Helper()
			if got := r.extended(gpu); got != want {
				t.Errorf("%s: got %s, want %s", what, got, want)
			}
		}
		p.Stop()
		r.advance(time.Second)
		want("the plugin is gone", "0/2")
		r.advance(devicemanager.StopGracePeriod - 2*time.Second)
		want("within the grace period", "0/2")
		r.advance(2 * time.Second)
		want("after the grace period", "0/0")
		r.startPlugin(p)
		want("it is back", "2/2")
		r.create(pod("q", containerWithDevices("two", gpu, 1)))
		if got := r.deviceIDs("two"); !slices.Equal(got, []string{"/dev/b"}) {
			t.Errorf("got %v, want the device that p does not have", got)
		}
		p.Stop()
		r.startPlugin(p) // at once: the old connection ends with the new one's coming
		want("restarted", "2/2")
	})
}

// A kubelet that was killed knows what containers have: it gives none of it away, and asks no
// plugin again for what was allocated.
//
// row: DEV-03
func TestDevicesOutliveTheKubelet(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := r.plugin(gpu, "a", "b")
		r.create(pod("p", containerWithDevices("one", gpu, 1)))
		r.stop()
		p.Stop()
		r.start()
		if got := r.extended(gpu); got != "0/0" {
			t.Errorf("before the plugin registers again: got %s, want 0/0", got)
		}
		r.startPlugin(p)
		r.create(pod("q", containerWithDevices("two", gpu, 1)))
		if got, want := fmt.Sprint(r.deviceIDs("one"), r.deviceIDs("two"), p.Allocated()),
			"[/dev/a] [/dev/b] [[a] [b]]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		r.delete("p", 1)
		r.advance(5 * time.Second)
		r.create(pod("s", containerWithDevices("three", gpu, 1)))
		if got := r.deviceIDs("three"); !slices.Equal(got, []string{"/dev/a"}) {
			t.Errorf("got %v, want the device of the Pod that has ended", got)
		}
	})
}

// A plugin that hangs holds up its Pods alone; a Pod that is deleted meanwhile goes.
//
// row: DEV-03
func TestPluginThatHangs(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := r.plugin(gpu, "a", "b")
		r.plugin("other.com/nic", "n")
		p.Hang = func(ctx context.Context) { <-ctx.Done() }
		r.create(pod("stuck", containerWithDevices("stuck", gpu, 1)))
		r.create(pod("gone", containerWithDevices("gone", gpu, 1)))
		r.create(pod("nic", containerWithDevices("nic", "other.com/nic", 1)))
		r.create(pod("plain", scriptContainer("plain", "sleep 3600")))
		for _, name := range []string{"nic", "plain"} {
			if got := r.get(name).Status.Phase; got != v1.PodRunning {
				t.Errorf("%s: got %s, want Running beside a plugin that hangs", name, got)
			}
		}
		r.delete("gone", 1)
		r.advance(3 * time.Second)
		if p := r.get("gone"); p != nil {
			t.Errorf("deleted while its plugin hangs: got %s %s, want it gone", p.Status.Phase, p.Status.Message)
		}
		r.advance(time.Minute)
		s := r.get("stuck").Status
		if s.Reason != "UnexpectedAdmissionError" || !strings.Contains(s.Message, "DeadlineExceeded") {
			t.Errorf("got %s %q, want UnexpectedAdmissionError with DeadlineExceeded", s.Reason, s.Message)
		}
	})
}

// Reports and registrations that make no sense harm nobody.
//
// row: DEV-01
// row: DEV-02
func TestPluginsThatSendNonsense(t *testing.T) {
	deviceTest(t, func(r *deviceNode) {
		p := r.plugin(gpu, "a")
		p.Report(append(deviceplugintest.Healthy("", "a", "a", "", strings.Repeat("x", 1<<16)),
			&pluginapi.Device{ID: "odd",
				Topology: &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: -7}, {ID: 1 << 40}}}})...)
		r.advance(time.Second)
		if got := r.extended(gpu); got != "2/3" {
			t.Errorf("allocatable/capacity: got %s, want 2/3", got)
		}
		for i := range 1000 {
			p.Report(deviceplugintest.Healthy("a", fmt.Sprint("flood-", i))...)
		}
		r.advance(time.Second)
		r.create(pod("p", containerWithDevices("one", gpu, 1)))
		if got := r.get("p").Status.Phase; got != v1.PodRunning {
			t.Errorf("after a flood: got %s, want Running", got)
		}
		if got := r.extended(gpu); got != "2/2" {
			t.Errorf("allocatable/capacity after a flood: got %s, want 2/2, the last report's", got)
		}
		socket := filepath.Join(r.deviceDir(), "kubelet.sock")
		for _, c := range []struct{ req, want string }{
			{"v1alpha 1.sock " + gpu,
				`requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]`},
			{"v1beta1 1.sock cpu", `the ResourceName "cpu" is invalid`},
			{"v1beta1 1.sock kubernetes.io/gpu", `the ResourceName "kubernetes.io/gpu" is invalid`},
			{"v1beta1 1.sock a.com/b/c", `the ResourceName "a.com/b/c" is invalid`},
			{"v1beta1 ../../x.sock b.com/y", "failed to dial device plugin"},
		} {
			f := strings.Fields(c.req)
			err := deviceplugintest.Register(context.Background(), socket, r.sockets,
				&pluginapi.RegisterRequest{Version: f[0], Endpoint: f[1], ResourceName: f[2]})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", c.req, err, c.want)
			}
		}
	})
}

// A checkpoint that is no checkpoint costs what it knew, not the kubelet.
func TestBadCheckpoints(t *testing.T) {
	for _, content := range []string{"", "{", "null",
		`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}`,
		"[1,2]", strings.Repeat("\x00", 100)} {
		deviceTest(t, func(r *deviceNode) {
			r.stop()
			path := filepath.Join(r.deviceDir(), "kubelet_internal_checkpoint")
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.plugin(gpu, "a")
			r.create(pod("p", containerWithDevices("one", gpu, 1)))
			if got := r.get("p").Status.Phase; got != v1.PodRunning {
				t.Errorf("%q: got %s, want Running", content, got)
			}
		})
	}
}
