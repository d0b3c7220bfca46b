package devices_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/deviceplugintest"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
	"github.com/gantry-project/gantry/testcluster"
)

// cluster is a cluster whose node takes plugins in.
type cluster struct {
	*testcluster.Cluster
	t   *testing.T
	ctx context.Context
}

func start(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return &cluster{testcluster.Start(t, testcluster.WithPlugins()), t, ctx}
}

// until waits for something that takes a moment.
func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	expect.Poll(c.t, 20*time.Millisecond, 2*time.Minute, what, func() error {
		if ok() {
			return nil
		}
		return expect.Lazy(c.Dump)
	})
}

// allocatable is what the Node object says of a resource.
func (c *cluster) allocatable(name string) string {
	c.t.Helper()
	n, err := c.Client.CoreV1().Nodes().Get(c.ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	capacity, ok := n.Status.Capacity[v1.ResourceName(name)]
	if !ok {
		return "none"
	}
	allocatable := n.Status.Allocatable[v1.ResourceName(name)]
	return allocatable.String() + "/" + capacity.String()
}

func (c *cluster) create(p *v1.Pod) {
	c.t.Helper()
	if _, err := c.Client.CoreV1().Pods("default").Create(c.ctx, p, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) delete(name string) {
	c.t.Helper()
	if err := c.Client.CoreV1().Pods("default").Delete(c.ctx, name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func running(p *v1.Pod) bool { return p != nil && p.Status.Phase == v1.PodRunning }

// user is a Pod that asks for one device of a resource.
func user(name, resourceName string) *v1.Pod {
	p := wrappers.MakePod().Name(name).TerminationGracePeriodSeconds(1).Container(name, "app").Obj()
	if resourceName != "" {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{
			v1.ResourceName(resourceName): *resource.NewQuantity(1, resource.DecimalSI)}
	}
	return p
}

// device is the one device node that the container of a Pod got.
func (c *cluster) device(pod string) string {
	c.t.Helper()
	list := c.Runtime("node-1").ContainerConfigs(pod)
	if len(list) == 0 || len(list[len(list)-1].GetDevices()) != 1 {
		c.t.Fatalf("the container of %s has not one device: %v", pod, list)
	}
	return list[len(list)-1].GetDevices()[0].GetHostPath()
}

// Devices of four vendors are in the Node object, the scheduler places Pods by them, and no device
// is given twice, however often plugins and kubelets are killed and Pods go.
func TestDevicePluginsThroughTheScheduler(t *testing.T) {
	t.Parallel()
	c := start(t)
	dir := filepath.Join(c.KubeletDir("node-1"), "device-plugins")
	names := []string{"nvidia.com/gpu", "xilinx.com/fpga", "rdma.example.com/hca", "cores.example.com/dedicated"}
	plugins := map[string]*deviceplugintest.Plugin{}
	for i, name := range names {
		p := &deviceplugintest.Plugin{Resource: name, Socket: fmt.Sprint("p", i, ".sock")}
		p.Report(deviceplugintest.Healthy(fmt.Sprint("d", i), fmt.Sprint("e", i))...)
		if err := p.Start(c.ctx, dir, plugin.UnixSockets{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		plugins[name] = p
	}
	for i, name := range names {
		c.until(name+" in the Node object", func() bool { return c.allocatable(name) == "2/2" }) // row: DEV-01 DEV-02
		pod := fmt.Sprint("first-", i)
		c.create(user(pod, name))
		c.WaitPod(c.ctx, "default", pod, running) // row: DEV-05
		if got := len(plugins[name].Allocated()); got != 1 {
			t.Errorf("%s: got %d Allocate calls, want 1", name, got)
		}
	}
	gpu := plugins["nvidia.com/gpu"]
	c.KillNode("node-1")
	gpu.Stop()
	c.StartNode("node-1")
	c.until("the kubelet takes registrations", func() bool { // plugins follow this with inotify
		conn, err := plugin.UnixSockets{}.Dial(c.ctx, filepath.Join(dir, "kubelet.sock"))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	for _, name := range names {
		p := plugins[name]
		p.Stop()
		if err := p.Start(c.ctx, dir, plugin.UnixSockets{}); err != nil {
			t.Fatal(err)
		}
	}
	c.until("the plugins are back", func() bool { return c.allocatable("nvidia.com/gpu") == "2/2" })
	c.create(user("second", "nvidia.com/gpu"))
	c.WaitPod(c.ctx, "default", "second", running)
	if a, b := c.device("first-0"), c.device("second"); a == b {
		t.Errorf("%s was given twice", a)
	}
	c.create(user("third", "nvidia.com/gpu"))
	c.WaitPod(c.ctx, "default", "third", func(p *v1.Pod) bool {
		return len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Reason == v1.PodReasonUnschedulable
	})
	c.delete("first-0")
	c.WaitPod(c.ctx, "default", "third", running)
	if a, b := c.device("second"), c.device("third"); a == b {
		t.Errorf("%s was given twice", a)
	}
	gpu.Stop()
	c.until("the plugin is gone", func() bool { return c.allocatable("nvidia.com/gpu") == "0/2" })
}
