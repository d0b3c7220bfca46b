package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
)

// devicePod is a Pod that says what it has of its devices, and goes on.
const devicePod = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: docker.io/library/busybox:1.28
    command: [sh, -c, 'head -c 2 /dev/vendor | od -An -tx1; cat /vendor/note; echo $DEVICE $CDI; test -c /dev/cdi && echo cdi; sleep 3600']
    resources: {limits: {vendor.example.com/zero: 1}}
`

// A device plugin's devices in a real container: the device node can be read, mount, variable and
// CDI device are there. A kubelet that is killed gives no device twice.
func TestDevicePlugin(t *testing.T) {
	c := newCluster(t)
	cdi := cdiSpec(t)
	c.Start()
	c.importImages("docker.io/library/busybox:1.28")
	vendor := t.TempDir()
	if err := os.WriteFile(filepath.Join(vendor, "note"), []byte("from the plugin\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(vendor, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(c.Dir, "kubelet", "device-plugins")
	p := &deviceplugintest.Plugin{Resource: "vendor.example.com/zero", Socket: "zero.sock"}
	p.Answer = func(ids []string) (*pluginapi.AllocateResponse, error) {
		return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{
			Envs: map[string]string{"DEVICE": strings.Join(ids, ",")},
			Devices: []*pluginapi.DeviceSpec{{HostPath: "/dev/zero", ContainerPath: "/dev/vendor",
				Permissions: "r"}},
			Mounts:     []*pluginapi.Mount{{HostPath: vendor, ContainerPath: "/vendor", ReadOnly: true}},
			CdiDevices: []*pluginapi.CDIDevice{{Name: cdi}},
		}}}, nil
	}
	p.Report(deviceplugintest.Healthy("zero-0", "zero-1")...)
	start := func() {
		t.Helper()
		if err := p.Start(context.Background(), dir, plugin.UnixSockets{}); err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(p.Stop)
	allocatable := func() (string, bool) {
		got := c.field("node/node-1", `{.status.allocatable.vendor\.example\.com/zero}`)
		return got, got == "2"
	}
	c.eventually(30*time.Second, "two devices are allocatable", allocatable) // row: DEV-02
	says := func(pod, id string) {
		t.Helper()
		c.apply(fmt.Sprintf(devicePod, pod))
		c.waitFor("pod/"+pod, "condition=Ready", time.Minute)
		want := " 00 00\nfrom the plugin\n" + id + " yes\ncdi\n"
		c.eventually(time.Minute, pod+" says what it has", func() (string, bool) { // row: DEV-04
			got := c.kubectl("logs", pod)
			return got, got == want
		})
	}
	says("first", "zero-0")
	c.Kill()
	p.Stop()
	c.Start()
	c.eventually(30*time.Second, "the kubelet takes registrations", func() (string, bool) {
		err := p.Start(context.Background(), dir, plugin.UnixSockets{})
		return fmt.Sprint(err), err == nil
	})
	c.eventually(30*time.Second, "two devices are allocatable again", allocatable)
	says("second", "zero-1")
	if got := c.field("pod/first", "{.status.containerStatuses[0].restartCount}"); got != "0" {
		t.Errorf("the first Pod has restarted %s times, want 0", got)
	}
}

// cdiSpec writes a CDI specification of one device and returns its name.
func cdiSpec(t *testing.T) string {
	t.Helper()
	const dir = "/var/run/cdi"
	_, err := os.Stat(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("gantry-test-%d", os.Getpid())
	spec := fmt.Sprintf(`{"cdiVersion":"0.6.0","kind":"%s.example.com/device","devices":[{"name":"one",`+
		`"containerEdits":{`+
		`"env":["CDI=yes"],"deviceNodes":[{"path":"/dev/cdi","hostPath":"/dev/null"}]}}]}`, name)
	path := filepath.Join(dir, name+".json")
	if err := os.WriteFile(path, []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.Remove(path)
		if err != nil {
			_ = os.Remove(dir) // empty unless somebody else uses it
		}
	})
	return name + ".example.com/device=one"
}
