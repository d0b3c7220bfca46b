package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
	"github.com/gantry-project/gantry/test/instance"
)

// allManagers is a configuration with every manager of the node's resources on.
const allManagers = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
memoryManagerPolicy: Static
systemReserved: {memory: 200Mi}
reservedMemory: [{numaNode: 0, limits: {memory: 300Mi}}]
topologyManagerPolicy: best-effort
featureGates: {MemoryQoS: true}
kernelMemcgNotification: true
evictionHard:
  memory.available: 100Mi
  nodefs.available: 1%
  nodefs.inodesFree: 1%
  imagefs.available: 1%
  pid.available: "100"
evictionSoft: {memory.available: 200Mi}
evictionSoftGracePeriod: {memory.available: 1m30s}
`

const (
	gpuResource = "bench.example/gpu"
	claimDriver = "bench.example"
)

// managers measures a kubelet at rest, in a process of its own, with all managers of the node's
// resources on, a device plugin and a DRA driver registered, and ten Pods: one has a core alone,
// one a device, one a claim. Wake-ups are the voluntary context switches of its threads.
func (b *bench) managers(ctx context.Context) ([]result.Figure, error) {
	config := filepath.Join(filepath.Dir(b.archive), "managers.yaml")
	if err := os.WriteFile(config, []byte(allManagers), 0o600); err != nil {
		return nil, err
	}
	n, err := b.splitNode(ctx, instance.Options{Config: config})
	if err != nil {
		return nil, err
	}
	defer n.remove(b)
	stop, err := n.plugins(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := n.fillManaged(ctx); err != nil {
		return nil, err
	}
	if err := sleep(ctx, n.settle); err != nil {
		return nil, err
	}
	pid := strconv.Itoa(n.instance.PID("kubelet"))
	woken := wakeUps(pid)
	err = n.rest(ctx, "all managers")
	n.figures = append(n.figures, result.Value("rest/all managers/gantry kubelet/wake-ups", "/s",
		float64(wakeUps(pid)-woken)/(n.settle+n.window).Seconds()))
	return n.figures, err
}

// wakeUps counts the voluntary context switches of a process's threads.
func wakeUps(pid string) (n int64) {
	files, _ := filepath.Glob("/proc/" + pid + "/task/*/status")
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		for line := range strings.Lines(string(raw)) {
			if count, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				k, _ := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
				n += k
			}
		}
	}
	return n
}

// fillManaged creates the ten Pods and waits until they run.
func (n *nodeBench) fillManaged(ctx context.Context) error {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: claimDriver}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.driver == "` + claimDriver + `"`}}}
	if _, err := n.client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "default"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "one",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: claimDriver}}}
	claims := n.client.ResourceV1().ResourceClaims("default")
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	var names []string
	for k := range 10 {
		p := termSleeper(fmt.Sprintf("managed-%d", k))
		c := &p.Spec.Containers[0]
		switch k {
		case 0:
			c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
				v1.ResourceMemory: resource.MustParse("64Mi")}
		case 1:
			c.Resources.Limits = v1.ResourceList{gpuResource: resource.MustParse("1")}
		case 2:
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim.Name}}
			c.Resources.Claims = []v1.ResourceClaim{{Name: "device"}}
		case 3, 4, 5:
			c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("32Mi")}
		}
		if err := n.create(ctx, p); err != nil {
			return err
		}
		names = append(names, p.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return n.seen.all(ctx, names, running)
}

// plugins registers a device plugin and a DRA driver with the kubelet, and waits until it lists
// their devices.
func (n *nodeBench) plugins(ctx context.Context) (stop func(), err error) {
	root := filepath.Join(n.instance.Dir, "kubelet")
	gpu := &deviceplugintest.Plugin{Resource: gpuResource, Socket: "bench.sock"}
	gpu.Answer = noDevices
	gpu.Report(deviceplugintest.Healthy("a", "b")...)
	if err := gpu.Start(ctx, filepath.Join(root, "device-plugins"), plugin.UnixSockets{}); err != nil {
		return nil, err
	}
	data := filepath.Join(root, "plugins", claimDriver)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return nil, err
	}
	helper, err := kubeletplugin.Start(ctx, benchDriver{}, kubeletplugin.DriverName(claimDriver),
		kubeletplugin.KubeClient(n.client), kubeletplugin.NodeName("node-1"),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(root, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return nil, err
	}
	slice := resourceslice.Slice{Devices: []resourceapi.Device{{Name: "one"}}}
	err = helper.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{"node-1": {Slices: []resourceslice.Slice{slice}}}})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err = instance.Poll(ctx, 100*time.Millisecond, func() error {
			x, err := n.client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
			if err != nil {
				return err
			}
			q := x.Status.Allocatable[gpuResource]
			if s := helper.RegistrationStatus(); q.Value() != 2 || s == nil || !s.PluginRegistered {
				return fmt.Errorf("the node has %s of %s; the driver: %v", q.String(), gpuResource, s)
			}
			return nil
		})
	}
	return func() { helper.Stop(); gpu.Stop() }, err
}

// benchDriver is a DRA driver whose devices are nothing.
type benchDriver struct{}

func (benchDriver) PrepareResourceClaims(_ context.Context,
	claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		out[c.UID] = kubeletplugin.PrepareResult{}
	}
	return out, nil
}

func (benchDriver) UnprepareResourceClaims(_ context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	out := map[types.UID]error{}
	for _, c := range claims {
		out[c.UID] = nil
	}
	return out, nil
}

func (benchDriver) HandleError(context.Context, error, string) {}

// noDevices answers a call for devices with nothing to mount.
func noDevices([]string) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

func (benchDriver) WatchHealthStatus(ctx context.Context, _ chan<- kubeletplugin.DeviceHealthReport) error {
	<-ctx.Done()
	return nil
}
