package devices_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// driver is a DRA driver made with upstream's helper. It knows what is prepared.
type driver struct {
	name string

	mu       sync.Mutex
	prepared map[types.UID]bool
	calls    []string
}

// PrepareResourceClaims is the helper's.
func (d *driver) PrepareResourceClaims(_ context.Context,
	claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		d.prepared[c.UID] = true
		d.calls = append(d.calls, "prepare "+c.Name)
		r := kubeletplugin.PrepareResult{}
		for _, a := range c.Status.Allocation.Devices.Results {
			if a.Driver == d.name {
				r.Devices = append(r.Devices, kubeletplugin.Device{Requests: []string{a.Request}, PoolName: a.Pool,
					DeviceName: a.Device, CDIDeviceIDs: []string{d.name + "/device=" + a.Device}})
			}
		}
		out[c.UID] = r
	}
	return out, nil
}

// UnprepareResourceClaims is the helper's.
func (d *driver) UnprepareResourceClaims(_ context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[types.UID]error{}
	for _, c := range claims {
		delete(d.prepared, c.UID)
		d.calls = append(d.calls, "unprepare "+c.Name)
		out[c.UID] = nil
	}
	return out, nil
}

// HandleError is the helper's.
func (d *driver) HandleError(context.Context, error, string) {}

// WatchHealthStatus is the helper's: all devices are unhealthy.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	r := kubeletplugin.DeviceHealthReport{
		Devices: []kubeletplugin.DeviceHealth{{PoolName: "node-1", DeviceName: "gpu-0",
			Health: kubeletplugin.HealthStatusUnhealthy, Message: "too hot", HealthCheckTimeout: time.Hour}}}
	select {
	case reports <- r:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

func (d *driver) preparedCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.prepared)
}

func (d *driver) count(call string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if strings.HasPrefix(c, call) {
			n++
		}
	}
	return n
}

// driver starts a driver with devices; stop ends it.
func (c *cluster) driver(d *driver, devices ...string) (stop func()) {
	c.t.Helper()
	root := c.KubeletDir("node-1")
	data := filepath.Join(root, "plugins", d.name)
	for _, dir := range []string{data, filepath.Join(root, "plugins_registry")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			c.t.Fatal(err)
		}
	}
	helper, err := kubeletplugin.Start(context.WithoutCancel(c.ctx), d, kubeletplugin.DriverName(d.name),
		kubeletplugin.KubeClient(c.Client), kubeletplugin.NodeName("node-1"),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(root, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		c.t.Fatal(err)
	}
	stop = sync.OnceFunc(helper.Stop)
	c.t.Cleanup(stop)
	c.until(d.name+" is registered",
		func() bool { s := helper.RegistrationStatus(); return s != nil && s.PluginRegistered })
	slice := resourceslice.Slice{}
	for _, name := range devices {
		slice.Devices = append(slice.Devices, resourceapi.Device{Name: name})
	}
	if err := helper.PublishResources(c.ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{"node-1": {Slices: []resourceslice.Slice{slice}}}}); err != nil {
		c.t.Fatal(err)
	}
	return stop
}

// claim makes a claim for one device of each driver, whose classes are made too.
func (c *cluster) claim(name string, drivers ...string) {
	c.t.Helper()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	for i, d := range drivers {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: d}, Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
				Expression: `device.driver == "` + d + `"`}}}}}
		_, _ = c.Client.ResourceV1().DeviceClasses().Create(c.ctx, class, metav1.CreateOptions{}) // it may be there
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: fmt.Sprint("r", i), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: d}})
	}
	if _, err := c.Client.ResourceV1().ResourceClaims("default").Create(c.ctx, claim, metav1.CreateOptions{}); err !=
		nil {
		c.t.Fatal(err)
	}
}

// claimUser is a Pod that uses a claim.
func claimUser(name, claim string) *v1.Pod {
	p := user(name, "")
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
	p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "devices"}}
	return p
}

// cdi are the CDI devices of a Pod's container, in order.
func (c *cluster) cdi(pod string) (out []string) {
	c.t.Helper()
	list := c.Runtime("node-1").ContainerConfigs(pod)
	if len(list) == 0 {
		c.t.Fatalf("no container of %s", pod)
	}
	for _, d := range list[len(list)-1].GetCDIDevices() {
		out = append(out, d.GetName())
	}
	slices.Sort(out)
	return out
}

// A claim for devices of two drivers goes from the scheduler to both drivers and into the
// containers of both Pods that share it; it outlives the kubelet, and is undone with the last Pod.
func TestClaimsOfTwoDrivers(t *testing.T) {
	t.Parallel()
	c := start(t)
	gpu := &driver{name: "gpu.example.com", prepared: map[types.UID]bool{}}
	nic := &driver{name: "nic.example.com", prepared: map[types.UID]bool{}}
	stopGPU := c.driver(gpu, "gpu-0")
	c.driver(nic, "nic-0")
	c.claim("pair", gpu.name, nic.name)
	want := []string{"gpu.example.com/device=gpu-0", "nic.example.com/device=nic-0"}
	for _, name := range []string{"one", "two"} {
		c.create(claimUser(name, "pair"))
		c.WaitPod(c.ctx, "default", name, running)
		if got := c.cdi(name); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	c.WaitPod(c.ctx, "default", "one", func(p *v1.Pod) bool {
		s := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		return len(s) == 1 && s[0].Name == "claim:devices" && len(s[0].Resources) == 2 &&
			s[0].Resources[0].ResourceID == "gpu.example.com/device=gpu-0" &&
			s[0].Resources[0].Health == v1.ResourceHealthStatusUnhealthy && *s[0].Resources[0].Message == "too hot" &&
			s[0].Resources[1].Health == v1.ResourceHealthStatusUnknown
	})
	if gpu.preparedCount() != 1 || nic.preparedCount() != 1 {
		t.Errorf("prepared: got %d and %d claims, want 1 and 1", gpu.preparedCount(), nic.preparedCount())
	}
	c.KillNode("node-1")
	c.StartNode("node-1")
	c.delete("one")
	c.WaitPod(c.ctx, "default", "one", func(p *v1.Pod) bool { return p == nil })
	if gpu.count("unprepare") != 0 {
		t.Error("the claim was undone while a Pod uses it")
	}
	stopGPU() // the last Pod cannot be shown to have ended while its driver is away
	c.delete("two")
	c.until("the other driver has undone its part or waits", func() bool {
		p, err := c.Client.CoreV1().Pods("default").Get(c.ctx, "two", metav1.GetOptions{})
		return err == nil && p.DeletionTimestamp != nil
	})
	c.driver(gpu, "gpu-0")
	c.WaitPod(c.ctx, "default", "two", func(p *v1.Pod) bool { return p == nil })
	if gpu.preparedCount() != 0 || nic.preparedCount() != 0 {
		t.Errorf("prepared after the last Pod: got %d and %d claims, want none", gpu.preparedCount(),
			nic.preparedCount())
	}
}

// A Pod whose driver is not there waits with upstream's words, and starts when it comes.
func TestClaimWaitsForItsDriver(t *testing.T) {
	t.Parallel()
	c := start(t)
	gpu := &driver{name: "gpu.example.com", prepared: map[types.UID]bool{}}
	stop := c.driver(gpu, "gpu-0")
	c.claim("one", gpu.name)
	c.until("the slice is published", func() bool {
		l, err := c.Client.ResourceV1().ResourceSlices().List(c.ctx, metav1.ListOptions{})
		return err == nil && len(l.Items) == 1
	})
	stop()
	c.create(claimUser("pod", "one"))
	c.until("the event", func() bool {
		l, err := c.Client.CoreV1().Events("default").List(c.ctx, metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(l.Items, func(e v1.Event) bool {
			return e.Reason == "FailedPrepareDynamicResources" && e.Message == "Failed to prepare dynamic resources: "+
				"prepare dynamic resources: DRA driver gpu.example.com is not registered"
		})
	})
	c.driver(gpu, "gpu-0")
	c.WaitPod(c.ctx, "default", "pod", running)
}
