package stats

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Collector makes Snapshots.
type Collector struct {
	d Deps

	mu    sync.Mutex
	rates map[string]rate // by cgroup path
	sizes map[string]size // by directory
}

// New returns a Collector.
func New(d Deps) *Collector {
	if d.DiskAge == 0 {
		d.DiskAge = time.Minute
	}
	return &Collector{d: d, rates: map[string]rate{}, sizes: map[string]size{}}
}

// CPUAndMemory measures processors and memory only.
func (c *Collector) CPUAndMemory(ctx context.Context) (*Snapshot, error) {
	return c.collect(ctx, false)
}

// Full measures everything.
func (c *Collector) Full(ctx context.Context) (*Snapshot, error) { return c.collect(ctx, true) }

func (c *Collector) collect(ctx context.Context, full bool) (*Snapshot, error) {
	out := &Snapshot{NodeName: c.d.NodeName, Started: c.d.Started, Machine: c.d.Machine}
	if err := c.node(ctx, &out.Node, full); err != nil {
		return nil, err
	}
	pods, err := c.running(ctx)
	if err != nil {
		return nil, err
	}
	fallback := false
	for i := range pods {
		c.measure(&pods[i])
		fallback = fallback || pods[i].Measured.Use == nil
	}
	if fallback {
		if err := c.measureFromRuntime(ctx, pods); err != nil {
			return nil, err
		}
	}
	if full {
		if err := c.writableLayers(ctx, pods); err != nil {
			return nil, err
		}
		for i := range pods {
			c.network(ctx, &pods[i])
			c.disk(ctx, &pods[i])
		}
	}
	out.Pods = pods
	c.tiers(out)
	c.system(out)
	c.forget(pods)
	return out, nil
}

func (c *Collector) node(ctx context.Context, n *Node, full bool) error {
	var err error
	if n.Sample, err = c.d.Host.Node(); err != nil {
		return err
	}
	n.Rate = c.rate(nodeRate, n.CPUNanos, n.At)
	if !full {
		return nil
	}
	log := klog.FromContext(ctx)
	if n.Interfaces, err = c.d.Host.NetworkInterfaces(0); err != nil {
		log.V(2).Info("Cannot read the machine's network interfaces", "err", err)
	}
	// The machine's ends of Pods' interfaces are told of with the Pods.
	n.Interfaces = slices.DeleteFunc(n.Interfaces,
		func(c usage.NetworkInterface) bool { return strings.HasPrefix(c.Name, "veth") })
	n.DefaultInterface = c.d.Host.DefaultInterface()
	disk, err := c.d.Host.Disk(c.d.Paths.Root)
	if err != nil {
		return err
	}
	n.Disk = &disk
	return c.imageDisk(ctx, n)
}

func (c *Collector) imageDisk(ctx context.Context, n *Node) error {
	if c.d.Images == nil {
		return nil
	}
	info, err := c.d.Images.ImageFsInfo(ctx)
	if err != nil {
		return fmt.Errorf("file system of images: %w", err)
	}
	n.Images = c.filesystem(info.GetImageFilesystems())
	if n.Containers = c.filesystem(info.GetContainerFilesystems()); n.Containers == nil {
		n.Containers = n.Images
	}
	return nil
}

// running lists the Pods the runtime runs, by namespace and name. Of one Pod the newest sandbox
// counts.
func (c *Collector) running(ctx context.Context) ([]Pod, error) {
	sandboxes, err := c.d.Runtime.ListPodSandbox(ctx,
		&runtimeapi.PodSandboxFilter{
			State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}})
	if err != nil {
		return nil, err
	}
	up, err := c.d.Runtime.ListContainers(ctx,
		&runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		return nil, err
	}
	known := map[string]*v1.Pod{}
	for _, p := range c.d.List() {
		known[string(p.UID)] = p
	}
	slices.SortFunc(sandboxes, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	var out []Pod
	seen := map[string]bool{}
	for _, b := range sandboxes {
		m := b.GetMetadata()
		if seen[m.GetUid()] {
			continue
		}
		seen[m.GetUid()] = true
		p := Pod{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Started: time.Unix(0, b.CreatedAt),
			Spec: known[m.GetUid()]}
		p.Sandbox = Container{ID: b.Id, Created: p.Started, Attempt: m.GetAttempt()}
		if p.Spec != nil {
			p.HostNetwork = p.Spec.Spec.HostNetwork
			if at := p.Spec.Status.StartTime; at != nil {
				p.Started = at.Time
			}
		}
		p.Containers = containersOf(b.Id, up)
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

func containersOf(sandbox string, up []*runtimeapi.Container) []Container {
	var out []Container
	for _, x := range up {
		if x.PodSandboxId != sandbox {
			continue
		}
		name := cmp.Or(x.GetLabels()[kubelettypes.KubernetesContainerNameLabel], x.GetMetadata().GetName())
		image := cmp.Or(x.GetImage().GetUserSpecifiedImage(), x.GetImage().GetImage())
		out = append(out, Container{Name: name, ID: x.Id, Image: image, Attempt: x.GetMetadata().GetAttempt(),
			Created: time.Unix(0, x.CreatedAt)})
	}
	slices.SortFunc(out, func(a, b Container) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// measure reads the Pod's cgroups. A Pod whose cgroup is not there (the fake runtime, a Pod no
// source knows) stays unmeasured.
func (c *Collector) measure(p *Pod) {
	if p.Spec == nil {
		return
	}
	pod := c.d.Paths.PodPath(p.Spec)
	p.Measured = c.cgroup(pod)
	if p.Measured.Use == nil {
		return
	}
	children, _ := c.d.Cgroups.List(pod)
	for _, x := range append([]*Container{&p.Sandbox}, pointers(p.Containers)...) {
		for _, name := range children {
			if strings.Contains(name, x.ID) { // the id itself, or cri-containerd-ID.scope with systemd
				x.Measured = c.cgroup(path.Join(pod, name))
			}
		}
	}
}

func (c *Collector) cgroup(at string) CgroupUsage {
	u, err := c.d.Cgroups.Measure(at)
	if err != nil {
		return CgroupUsage{}
	}
	return CgroupUsage{Path: at, Use: &u, Rate: c.rate(at, u.CPU.Nanos, u.At)}
}

func pointers(list []Container) []*Container {
	out := make([]*Container, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// tiers measures the cgroups above the Pods.
func (c *Collector) tiers(out *Snapshot) {
	paths := []string{"/", c.d.Paths.Pods}
	for _, p := range out.Pods {
		if parent := path.Dir(p.Measured.Path); p.Measured.Path != "" && !slices.Contains(paths, parent) {
			paths = append(paths, parent)
		}
	}
	for _, at := range paths {
		if m := c.cgroup(at); m.Use != nil {
			out.Tiers = append(out.Tiers, Tier{Path: at, Use: *m.Use, Rate: m.Rate})
		}
	}
}

// system measures the cgroups of kubelet and runtime; one that is a tier is measured with it.
func (c *Collector) system(out *Snapshot) {
	if c.d.System == nil {
		return
	}
	cgroups := c.d.System()
	for _, name := range slices.Sorted(maps.Keys(cgroups)) {
		at := cgroups[name]
		if i := slices.IndexFunc(out.Tiers, func(t Tier) bool { return t.Path == at }); i >= 0 {
			out.System = append(out.System, SystemCgroup{name, out.Tiers[i]})
		} else if i := slices.IndexFunc(out.System, func(s SystemCgroup) bool { return s.Path == at }); i >= 0 {
			out.System = append(out.System, SystemCgroup{name, out.System[i].Tier})
		} else if m := c.cgroup(at); m.Use != nil {
			out.System = append(out.System, SystemCgroup{name, Tier{Path: at, Use: *m.Use, Rate: m.Rate}})
		}
	}
}

// network reads the Pod's interfaces through a process of its sandbox. A Pod in the machine's
// network has none of its own.
func (c *Collector) network(ctx context.Context, p *Pod) {
	if p.HostNetwork || p.Sandbox.Measured.Path == "" {
		return
	}
	pids, err := c.d.Cgroups.Processes(p.Sandbox.Measured.Path)
	if err != nil || len(pids) == 0 {
		return
	}
	interfaces, err := c.d.Host.NetworkInterfaces(pids[0])
	if err != nil {
		klog.FromContext(ctx).V(4).Info("Cannot read a Pod's network interfaces", "pod", klog.KRef(p.Namespace, p.Name),
			"err", err)
		return
	}
	p.Interfaces, p.InterfacesAt = interfaces, time.Now()
}
