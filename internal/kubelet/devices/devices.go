package devices

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/manager"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
	dramanager "github.com/gantry-project/gantry/internal/kubelet/dra/manager"
	draplugin "github.com/gantry-project/gantry/internal/kubelet/dra/plugin"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/pluginmanager"
	"github.com/gantry-project/gantry/internal/kubelet/podresources"
	"github.com/gantry-project/gantry/internal/reason"
)

// PluginDir is the directory of device plugins' sockets below the kubelet's own.
const PluginDir = "device-plugins"

// Deps is what a Devices works with. Functions are called from any goroutine, without a lock.
type Deps struct {
	RootDir string         // the kubelet's directory
	Sockets plugin.Sockets // nil: nobody can register
	// of resource claims; nil: there is no API server
	API dramanager.API
	// NUMA nodes of the machine, and those that the topology manager chose for a container; nil:
	// any
	NUMANodes []int
	Affinity  func(uid types.UID, container string) map[int64]bool
	// Active tells whether a Pod may still use what it was given.
	Active func(uid types.UID) bool
	// Wake has a Pod's status made anew.
	Wake func(uid types.UID)
	// HideHealth leaves devices out of Pods' status (ResourceHealthStatus is off).
	HideHealth bool
	// NodeChanged tells that the node has other devices than before; nil: nobody is told.
	NodeChanged func()
	Metrics     *metrics.Metrics // may be nil
}

// Devices gives devices away. Make one with New.
type Devices struct {
	d       Deps
	plugins *manager.Manager
	claims  *dramanager.Manager
	drivers *draplugin.Drivers // from Start on
}

// New returns a Devices that knows what an earlier kubelet gave away.
func New(d Deps) (*Devices, error) {
	changed := d.NodeChanged
	if changed == nil {
		changed = func() {}
	}
	out := &Devices{d: d}
	out.plugins = manager.New(manager.Deps{Dir: filepath.Join(d.RootDir, PluginDir), Sockets: d.Sockets,
		Active: d.Active, Affinity: d.Affinity, NUMANodes: d.NUMANodes, CapacityChanged: changed, HealthChanged: d.Wake,
		Metrics: manager.Metrics{Registered: d.Metrics.DevicePluginRegistered,
			Allocated: d.Metrics.DevicePluginAllocated}})
	claims := dramanager.Deps{Dir: d.RootDir, API: d.API, Active: d.Active, HealthChanged: d.Wake,
		Metrics: dramanager.Metrics{Operation: d.Metrics.DRAOperation, Called: d.Metrics.DRACalled}}
	if d.Sockets != nil {
		claims.Dial = d.Sockets.Dial
	}
	var err error
	out.claims, err = dramanager.New(claims)
	return out, err
}

// Start serves device plugins, drivers and the PodResources API until ctx ends; the function
// returned waits for the end. providers are the other managers whose shares the API shows.
func (d *Devices) Start(ctx context.Context, providers podresources.Providers) (wait func(), err error) {
	if d.d.Sockets == nil {
		return func() {}, nil
	}
	registered, err := d.plugins.Start(ctx)
	if err != nil {
		return nil, err
	}
	drivers, undone := d.claims.Start(ctx)
	d.drivers = drivers
	served := make(chan struct{})
	providers.Devices, providers.DynamicResources = d.plugins, d.claims
	listen := func(path string) (net.Listener, error) { return d.d.Sockets.Listen(path) }
	go func() {
		defer close(served)
		err := podresources.Serve(ctx, podresources.SocketPath(d.d.RootDir), listen, providers)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Nobody can ask what Pods have of the node")
		}
	}()
	return func() { registered(); undone(); <-served }, nil
}

// AddHandlers has device plugins and drivers of claims registered that make a socket below
// plugins_registry. It is called after Start.
func (d *Devices) AddHandlers(m *pluginmanager.Manager) {
	m.AddHandler(registerapi.DevicePlugin, d.plugins.PluginHandler())
	if d.drivers != nil {
		m.AddHandler(registerapi.DRAPlugin, d.drivers)
	}
}

// Claims prepares resource claims.
func (d *Devices) Claims() *dramanager.Manager { return d.claims }

// Capacity is what the node has of device plugins' resources.
func (d *Devices) Capacity() (capacity, allocatable v1.ResourceList) { return d.plugins.Capacity() }

// RunOptions is what a container gets for its devices.
func (d *Devices) RunOptions(ctx context.Context, p *v1.Pod, c *v1.Container) (devicemanager.RunOptions, error) {
	out, err := d.plugins.RunOptions(ctx, p, c)
	if err != nil {
		return out, err
	}
	cdi, err := d.claims.CDIDevices(p, c)
	out.CDIDevices = append(cdi, out.CDIDevices...)
	return out, err
}

// ResourcesStatus is allocatedResourcesStatus of a Pod's containers, by name.
func (d *Devices) ResourcesStatus(p *v1.Pod) map[string][]v1.ResourceStatus {
	if d.d.HideHealth {
		return nil
	}
	var out map[string][]v1.ResourceStatus
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		list := append(d.plugins.ResourcesStatus(p.UID, c.Name), d.claims.ResourcesStatus(p, c)...)
		if len(list) == 0 {
			continue
		}
		if out == nil {
			out = map[string][]v1.ResourceStatus{}
		}
		out[c.Name] = list
	}
	return out
}

// Allocate has plugins prepare the devices that a Pod was given; the refusal is why they do not.
func (d *Devices) Allocate(ctx context.Context, p *v1.Pod) *reason.Refusal {
	return refusal(d.plugins.Allocate(ctx, p.UID))
}

// refusal is why a Pod does not get its devices, with upstream's words; nil for nil.
func refusal(err error) *reason.Refusal {
	if err == nil {
		return nil
	}
	return &reason.Refusal{Code: reason.AdmitUnexpected, By: "kubelet/devicemanager", Err: err,
		Detail: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err),
		Fix:    "see what the device plugin says, or create the Pod without a node for the scheduler to choose one"}
}

// WithAllocated is the node with at least as many devices as Pods have, when this Pod has any: it
// was scheduled when they were there, and keeps what it has when their plugin fails.
func (d *Devices) WithAllocated(node *v1.Node, p *v1.Pod) *v1.Node {
	if node == nil {
		return nil
	}
	var out *v1.Node
	for name, q := range d.plugins.Allocated(p.UID) {
		if has, ok := node.Status.Allocatable[name]; ok && has.Cmp(q) >= 0 {
			continue
		}
		if out == nil {
			if out = node.DeepCopy(); out.Status.Allocatable == nil {
				out.Status.Allocatable = v1.ResourceList{}
			}
		}
		out.Status.Allocatable[name] = q
	}
	if out == nil {
		return node
	}
	return out
}
