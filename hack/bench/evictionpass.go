package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/proc"
	podusage "github.com/gantry-project/gantry/internal/pod/usage"
)

// evictionPass measures one pass of the eviction manager over 110 Pods of one container, whose
// cgroups are there and empty: the node is read, found short of memory, the Pods are measured and
// ranked. Nobody is asked to end. "CPU" is the mean processor time of a pass, which other work on
// the machine does not change.
func (b *bench) evictionPass(ctx context.Context) (f []result.Figure, err error) {
	const root = "/gantry-bench-pass"
	tree, err := cgroup.Open(cgroup.Options{Root: root})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, tree.Remove(root)) }()
	limit := int64(8 << 30)
	if err := tree.Ensure(root, cgroup.Values{Memory: &limit}); err != nil {
		return f, err
	}
	var pods []*v1.Pod
	for k := range 110 {
		p := &v1.Pod{}
		p.Name, p.Namespace, p.UID = fmt.Sprint("p", k), "default", types.UID(fmt.Sprintf("pod-%d", k))
		id := fmt.Sprintf("%064d", k)
		p.Spec.Containers = []v1.Container{{Name: "c"}}
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + id,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
		if err := tree.Ensure(path.Join(root, string(p.UID), id), cgroup.Values{}); err != nil {
			return f, err
		}
		pods = append(pods, p)
	}
	list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{"memory.available": "99%"}})
	if len(errs) > 0 {
		return f, fmt.Errorf("thresholds: %v", errs)
	}
	m, err := proc.Read("/")
	if err != nil {
		return f, err
	}
	o := &manager.Observer{Cgroups: tree, Host: passHost{}, Images: passImages{}, MemoryBytes: int64(m.MemoryBytes),
		RootDir: "/", PodsPath: root, PodPath: func(p *v1.Pod) string { return path.Join(root, string(p.UID)) }}
	var took []time.Duration
	before, err := processorTime()
	if err != nil {
		return f, err
	}
	for range b.times(500) {
		begun := time.Now()
		if err := pass(ctx, o, list, pods); err != nil {
			return f, err
		}
		took = append(took, time.Since(begun))
	}
	after, err := processorTime()
	const name = "pass over 110 Pods"
	return []result.Figure{result.Durations(name, took), result.Value(name+"/CPU", "ms",
		result.Milliseconds((after-before)/time.Duration(len(took))))}, err
}

// processorTime is what this process has taken so far, in the kernel too.
func processorTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// pass is what the manager does until a Pod is asked to end.
func pass(ctx context.Context, o *manager.Observer, list []eviction.Threshold, pods []*v1.Pod) error {
	figures, disks, err := o.Observe(ctx)
	if err != nil {
		return err
	}
	in := eviction.In{Config: eviction.Config{Thresholds: list}, Disks: disks, Now: time.Now(), Pods: pods,
		Observations: eviction.Observe(figures)}
	d := eviction.Decide(in)
	if d.Target == nil {
		return errors.New("the node is not found short of memory")
	}
	if in.Use, err = o.Measure(ctx, d.Resource, pods); err != nil {
		return err
	}
	if d = eviction.Decide(in); d.Victim == nil || len(in.Use) != len(pods) {
		return fmt.Errorf("victim %v of %d Pods measured", d.Victim, len(in.Use))
	}
	use := in.Use[d.Victim.Pod.UID]
	use.Containers = o.Containers(d.Victim.Pod)
	in.Use[d.Victim.Pod.UID] = use
	if again := eviction.Decide(in); len(use.Containers) != 1 || again.Victim.Pod != d.Victim.Pod {
		return fmt.Errorf("victim %v, and with its containers %v", d.Victim, again.Victim)
	}
	return nil
}

type passHost struct{}

func (passHost) Disk(dir string) (podusage.Disk, error) {
	d, err := proc.StatFS(dir)
	return podusage.Disk{Capacity: d.CapacityBytes, Available: d.AvailableBytes, Inodes: d.Inodes,
		InodesFree: d.InodesFree}, err
}
func (passHost) Device(dir string) (uint64, error)       { return proc.Device(dir) }
func (passHost) Tasks() (running, most int64, err error) { return proc.Tasks("/") }

type passImages struct{}

func (passImages) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}}}}, nil
}
