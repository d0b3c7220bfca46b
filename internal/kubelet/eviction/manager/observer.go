package manager

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/stats"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Images tells where images and writable layers are; internalapi.ImageManagerService is one.
type Images interface {
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
}

// Cgroups reads cgroups by path.
type Cgroups interface {
	MemoryUse(path string) (usage.MemoryUse, error) // "/" is the node
	WorkingSet(path string) (uint64, error)         // of MemoryUse
	Processes(path string) ([]int, error)
	List(parent string) ([]string, error)
}

// Host reads the machine. Disk and Device come back in bounded time, whatever the file system does.
type Host interface {
	Disk(path string) (usage.Disk, error)
	Device(path string) (uint64, error) // of the file system path is on
	// Tasks are how many there are, and how many there may be.
	Tasks() (running, most int64, err error)
}

// Observer reads figures of the node and of its Pods.
type Observer struct {
	Cgroups Cgroups
	Host    Host
	Images  Images
	// Full measures all that Pods take; asked for disks only
	Full        func(context.Context) (*stats.Snapshot, error)
	MemoryBytes int64                // that processes may have, without huge pages
	RootDir     string               // of the kubelet
	PodsPath    string               // cgroup of all Pods
	PodPath     func(*v1.Pod) string // cgroup of one

	mu     sync.Mutex
	mounts mounts
	asking bool // the runtime was asked for mounts and has not answered
}

// mounts is where the runtime keeps its files, as it was last told.
type mounts struct {
	read               time.Time
	images, containers string
	disks              eviction.Disks
}

// mountsAge is how long the runtime's answer about its directories is believed.
const mountsAge = 10 * time.Minute

// firstMounts is how long a look waits for the first answer.
const firstMounts = 2 * time.Second

// Observe reads the node. What cannot be read is left out, so that a file system that hangs does
// not hide that memory is short; the error is about all together.
func (o *Observer) Observe(ctx context.Context) (eviction.Figures, eviction.Disks, error) {
	var f eviction.Figures
	now := time.Now()
	node, err := o.Cgroups.MemoryUse("/")
	if err == nil {
		node.Limit = uint64(o.MemoryBytes)
		f.Memory = availableMemory(node, now)
	}
	if pods, err := o.Cgroups.MemoryUse(o.PodsPath); err == nil && pods.Limit > 0 {
		f.PodMemory = availableMemory(pods, now)
	}
	if running, most, err := o.Host.Tasks(); err == nil {
		f.Processes = &eviction.Observation{At: now, Available: most - running, Capacity: most}
	}
	f.NodeFs = o.filesystem(o.RootDir, now)
	m := o.runtimeMounts(ctx, now)
	if m.images != "" {
		f.ImageFs, f.ContainerFs = o.filesystem(m.images, now), o.filesystem(m.containers, now)
	}
	if f.Memory == nil && f.NodeFs.Bytes == nil && f.Processes == nil {
		return f, m.disks, fmt.Errorf("nothing of this node can be read: %w", err)
	}
	return f, m.disks, nil
}

func availableMemory(u usage.MemoryUse, now time.Time) *eviction.Observation {
	return &eviction.Observation{At: now, Capacity: int64(u.Limit),
		Available: max(int64(u.Limit)-int64(u.WorkingSet), 0)}
}

func (o *Observer) filesystem(dir string, now time.Time) eviction.Filesystem {
	d, err := o.Host.Disk(dir)
	if err != nil {
		return eviction.Filesystem{}
	}
	f := eviction.Filesystem{
		Bytes: &eviction.Observation{At: now, Available: int64(d.Available), Capacity: int64(d.Capacity)}}
	if d.Inodes > 0 { // some file systems count none
		f.Inodes = &eviction.Observation{At: now, Available: int64(d.InodesFree), Capacity: int64(d.Inodes)}
	}
	return f
}

// runtimeMounts asks the runtime where its files are, and now and then again; an answer that does
// not come leaves the last one. Only the first question is waited for, and not long: a runtime that
// is slow must not hide that memory is short.
func (o *Observer) runtimeMounts(ctx context.Context, now time.Time) mounts {
	o.mu.Lock()
	known := o.mounts
	if !known.read.IsZero() && now.Sub(known.read) < mountsAge || o.asking {
		o.mu.Unlock()
		return known
	}
	o.asking = true
	o.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		o.askMounts(ctx, now)
	}()
	if !known.read.IsZero() {
		return known
	}
	select {
	case <-answered:
	case <-time.After(firstMounts):
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mounts
}

// askMounts asks once, and notes the answer.
func (o *Observer) askMounts(ctx context.Context, now time.Time) {
	m, ok := o.readMounts(ctx)
	m.read = now
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asking = false
	if ok {
		o.mounts = m
	}
}

func (o *Observer) readMounts(ctx context.Context) (m mounts, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, Period)
	defer cancel()
	info, err := o.Images.ImageFsInfo(ctx)
	if err != nil || len(info.GetImageFilesystems()) == 0 {
		return m, false
	}
	m.images = info.ImageFilesystems[0].GetFsId().GetMountpoint()
	m.containers = m.images
	if list := info.GetContainerFilesystems(); len(list) > 0 {
		m.containers = list[0].GetFsId().GetMountpoint()
	}
	root, errRoot := o.Host.Device(o.RootDir)
	images, errImages := o.Host.Device(m.images)
	if errRoot != nil || errImages != nil {
		return m, false
	}
	m.disks.DedicatedImageFs = root != images
	if containers, err := o.Host.Device(m.containers); err == nil {
		m.disks.SplitImageFs = containers != images
	}
	return m, true
}

// Measure reads what Pods take of a resource. Memory and processes are read from cgroups, without
// the runtime, which may be what hangs, and without their containers; Pods without a cgroup are
// left out.
func (o *Observer) Measure(ctx context.Context, of v1.ResourceName,
	pods []*v1.Pod) (map[types.UID]eviction.PodUse, error) {
	out := map[types.UID]eviction.PodUse{}
	if of == v1.ResourceEphemeralStorage || of == eviction.ResourceInodes {
		snap, err := o.Full(ctx)
		if err != nil {
			return nil, err
		}
		for i := range snap.Pods {
			out[types.UID(snap.Pods[i].UID)] = diskUse(&snap.Pods[i])
		}
		return out, nil
	}
	uses := make([]*eviction.PodUse, len(pods))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0)) // the kernel sums up what it counts on each CPU at every reading
	for i, p := range pods {
		all.Go(func() error {
			uses[i] = o.measureCgroup(of, p)
			return nil
		})
	}
	_ = all.Wait() // no reading fails the others
	for i, p := range pods {
		if uses[i] != nil {
			out[p.UID] = *uses[i]
		}
	}
	return out, nil
}

// measureCgroup reads what a Pod takes of memory or processes; nil when it has no cgroup.
func (o *Observer) measureCgroup(of v1.ResourceName, p *v1.Pod) *eviction.PodUse {
	at := o.PodPath(p)
	memory, err := o.Cgroups.WorkingSet(at)
	if err != nil {
		return nil
	}
	u := &eviction.PodUse{Memory: signed(memory)}
	if of == v1.ResourceMemory { // containers are told of, not compared: see Containers
		return u
	}
	if list, err := o.Cgroups.Processes(at); err == nil {
		u.Processes = uint64(len(list))
	}
	return u
}

// Containers reads the memory of the containers that the Pod's status names.
func (o *Observer) Containers(p *v1.Pod) []eviction.ContainerUse {
	at := o.PodPath(p)
	var out []eviction.ContainerUse
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			_, id, ok := strings.Cut(s.ContainerID, "://")
			if !ok || id == "" || s.State.Running == nil {
				continue
			}
			if memory, err := o.containerMemory(at, id); err == nil {
				out = append(out, eviction.ContainerUse{Name: s.Name, Memory: signed(memory)})
			}
		}
	}
	return out
}

// containerMemory reads the memory of a container by its id, which is the name of its cgroup, or
// with systemd a part of it (cri-containerd-ID.scope): listing costs more than a reading.
func (o *Observer) containerMemory(at, id string) (uint64, error) {
	memory, err := o.Cgroups.WorkingSet(path.Join(at, id))
	if err == nil {
		return memory, nil
	}
	children, listErr := o.Cgroups.List(at)
	if listErr != nil {
		return memory, listErr
	}
	i := slices.IndexFunc(children, func(name string) bool { return strings.Contains(name, id) })
	if i < 0 {
		return memory, err // it has ended meanwhile
	}
	return o.Cgroups.WorkingSet(path.Join(at, children[i]))
}

func signed(n uint64) *int64 {
	s := int64(n)
	return &s
}

// diskUse sums up what was measured of a Pod on disks.
func diskUse(p *stats.Pod) eviction.PodUse {
	u := eviction.PodUse{Volumes: map[string]eviction.Space{}}
	space := func(s *usage.Space) *eviction.Space {
		if s == nil {
			return nil
		}
		return &eviction.Space{Bytes: int64(s.Bytes), Inodes: int64(s.Inodes)}
	}
	for _, c := range p.Containers {
		u.Containers = append(u.Containers,
			eviction.ContainerUse{Name: c.Name, Layer: space(c.Layer), Logs: space(c.Logs)})
	}
	for _, v := range p.Volumes {
		u.Volumes[v.Name] = eviction.Space{Bytes: int64(v.Disk.Used), Inodes: int64(v.Inodes)}
	}
	return u
}
