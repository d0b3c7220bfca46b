package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/eviction/manager"
	"github.com/gantry-project/gantry/internal/kubelet/stats"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumestats"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/proc"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// files writes files below a directory.
func files(t *testing.T, root string, content map[string]string) {
	t.Helper()
	for name, text := range content {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// trees are cgroup hierarchies of both versions with 6Gi charged to the node, of which cache is
// inactive page cache, and a Pods' cgroup of 3Gi with a limit of 4Gi and 1Gi of such cache.
func trees(t *testing.T, cache int64) map[string]*cgroup.Tree {
	t.Helper()
	one, two := t.TempDir(), t.TempDir()
	files(t, one, map[string]string{"cpu/cgroup.procs": "", "cpuset/cgroup.procs": "", "memory/cgroup.procs": "",
		"memory/memory.usage_in_bytes":          fmt.Sprint(6 * gi),
		"memory/memory.stat":                    fmt.Sprintf("total_inactive_file %d\n", cache),
		"memory/kubepods/memory.usage_in_bytes": fmt.Sprint(3 * gi),
		"memory/kubepods/memory.stat":           fmt.Sprintf("total_inactive_file %d\n", gi),
		"memory/kubepods/memory.limit_in_bytes": fmt.Sprint(4 * gi),
		"memory/memory.limit_in_bytes":          "9223372036854771712"})
	files(t, two, map[string]string{"cgroup.controllers": "memory",
		"memory.stat":             fmt.Sprintf("anon %d\nfile %d\ninactive_file %d\n", 6*gi-cache, cache, cache),
		"kubepods/memory.current": fmt.Sprint(3 * gi), "kubepods/memory.max": fmt.Sprint(4 * gi),
		"kubepods/memory.stat": fmt.Sprintf("anon %d\ninactive_file %d\n", 2*gi, gi)})
	out := map[string]*cgroup.Tree{}
	for version, mount := range map[string]string{"v1": one, "v2": two} {
		tree, err := cgroup.Open(cgroup.Options{Mount: mount, Root: "/kubepods"})
		if err != nil {
			t.Fatal(err)
		}
		out[version] = tree
	}
	return out
}

type images struct{ images, containers string }

func (i images) ImageFsInfo(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	fs := func(path string) []*runtimeapi.FilesystemUsage {
		return []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: path}}}
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs(i.images), ContainerFilesystems: fs(i.containers)}, nil
}

// host has disks and devices by path.
type host struct {
	disk          func(string) (usage.Disk, error)
	device        func(string) (uint64, error)
	running, most int64
}

func (h host) Disk(path string) (usage.Disk, error)    { return h.disk(path) }
func (h host) Device(path string) (uint64, error)      { return h.device(path) }
func (h host) Tasks() (running, most int64, err error) { return h.running, h.most, nil }

func diskOf(path string) (usage.Disk, error) {
	d, err := proc.StatFS(path)
	return usage.Disk{Capacity: d.CapacityBytes, Available: d.AvailableBytes, Inodes: d.Inodes,
			InodesFree: d.InodesFree},
		err
}

func observer(tree *cgroup.Tree, dir string) *manager.Observer {
	return &manager.Observer{Cgroups: tree, Images: images{dir, dir}, MemoryBytes: 8 * gi, RootDir: dir,
		PodsPath: "/kubepods", PodPath: func(p *v1.Pod) string { return "/kubepods/" + p.Name },
		Host: host{disk: diskOf, device: proc.Device, running: 700, most: 32768}}
}

// row: EVC-13
func TestMemoryIsTheWorkingSetOfTheRootCgroup(t *testing.T) {
	list, errs := eviction.Thresholds(eviction.Settings{Hard: map[string]string{"memory.available": "3Gi"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for cache, short := range map[int64]bool{5 * gi: false, 2 * gi: false, gi / 2: true} {
		for version, tree := range trees(t, cache) {
			f, _, err := observer(tree, t.TempDir()).Observe(t.Context())
			if err != nil || f.Memory == nil || f.PodMemory == nil {
				t.Fatalf("%s: got %+v, %v", version, f, err)
			}
			if want := 2*gi + cache; f.Memory.Available != want || f.Memory.Capacity != 8*gi {
				t.Errorf("%s, %d of cache: got %+v, want %d of 8Gi", version, cache, *f.Memory, want)
			}
			if f.PodMemory.Available != 2*gi || f.PodMemory.Capacity != 4*gi {
				t.Errorf("%s: Pods: got %+v, want 2Gi of their limit of 4Gi", version, *f.PodMemory)
			}
			d := eviction.Decide(eviction.In{Config: eviction.Config{Thresholds: list},
				Observations: eviction.Observe(f), Now: time.Now()})
			if (d.Target != nil) != short {
				t.Errorf("%s, 6Gi in use, %d of it page cache: got target %v, want one: %t", version, cache, d.Target,
					short)
			}
		}
	}
}

// row: EVC-14
// row: EVC-15
// row: EVC-06
func TestSignalsOfDisksAndProcesses(t *testing.T) {
	tree := trees(t, 0)["v2"]
	o := observer(tree, "/root-dir")
	disks := map[string]usage.Disk{"/root-dir": {Capacity: 100, Available: 40, Inodes: 10, InodesFree: 4},
		"/images": {Capacity: 200, Available: 30, Inodes: 20, InodesFree: 3},
		"/layers": {Capacity: 300, Available: 20, Inodes: 30, InodesFree: 2}}
	devices := map[string]uint64{"/root-dir": 1, "/images": 2, "/layers": 3}
	o.Images = images{"/images", "/layers"}
	o.Host = host{disk: func(p string) (usage.Disk, error) { return disks[p], nil },
		device: func(p string) (uint64, error) { return devices[p], nil }, running: 700, most: 32768}
	f, layout, err := o.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := eviction.Observe(f)
	for signal, want := range map[eviction.Signal][2]int64{
		eviction.NodeFsAvailable: {40, 100}, eviction.NodeFsInodesFree: {4, 10}, eviction.ImageFsAvailable: {30, 200},
		eviction.ImageFsInodesFree: {3, 20}, eviction.ContainerFsAvailable: {20, 300},
		eviction.ContainerFsInodesFree: {2, 30}, eviction.PIDAvailable: {32768 - 700, 32768},
	} {
		if x := got[signal]; x.Available != want[0] || x.Capacity != want[1] {
			t.Errorf("%s: got %+v, want %v", signal, x, want)
		}
	}
	if !layout.DedicatedImageFs || !layout.SplitImageFs {
		t.Errorf("three devices: got %+v, want images and layers apart", layout)
	}
	// The node's own figures are those of statfs on the two paths.
	root, other := t.TempDir(), "/dev/shm"
	o = observer(tree, root)
	o.Images = images{other, other}
	f, _, err = o.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for path, fs := range map[string]eviction.Filesystem{root: f.NodeFs, other: f.ImageFs} {
		want, err := diskOf(path)
		if err != nil {
			t.Fatal(err)
		}
		if fs.Bytes == nil || fs.Bytes.Capacity != int64(want.Capacity) {
			t.Errorf("%s: got %+v, want the capacity %d of its file system", path, fs.Bytes, want.Capacity)
		}
	}
}

// row: EVC-14
func TestADeadFileServerHidesNoMemoryPressure(t *testing.T) {
	tree := trees(t, 0)["v2"]
	o := observer(tree, "/far")
	answer := make(chan struct{})
	defer close(answer)
	hang := volumestats.NewWithTimeout(func(string) (usage.Disk, error) { <-answer; return usage.Disk{}, nil },
		50*time.Millisecond)
	o.Host = host{disk: hang.Measure, device: func(string) (uint64, error) { return 0, errors.New("hangs") }, most: 9}
	f, _, err := o.Observe(t.Context())
	if err != nil || f.Memory == nil || f.Processes == nil || f.NodeFs.Bytes != nil || f.ImageFs.Bytes != nil {
		t.Errorf("got %+v, %v, want memory and processes without disks", f, err)
	}
}

// row: EVC-18
func TestUseOfPods(t *testing.T) {
	mount := t.TempDir()
	files(t, mount, map[string]string{"cgroup.controllers": "memory",
		"kubepods/p/memory.current": fmt.Sprint(500 * mi),
		"kubepods/p/memory.stat":    fmt.Sprintf("inactive_file %d\n", 100*mi), "kubepods/p/cgroup.procs": "",
		"kubepods/p/cri-abc.scope/memory.current": fmt.Sprint(300 * mi),
		"kubepods/p/cri-abc.scope/memory.stat":    "inactive_file 0\n",
		"kubepods/p/cri-abc.scope/cgroup.procs":   "11\n12\n13\n"})
	tree, err := cgroup.Open(cgroup.Options{Mount: mount, Root: "/kubepods"})
	if err != nil {
		t.Fatal(err)
	}
	o := observer(tree, t.TempDir())
	p, gone := &v1.Pod{}, &v1.Pod{}
	p.Name, p.UID, gone.Name, gone.UID = "p", "up", "gone", "ug"
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", ContainerID: "containerd://abc", State: running},
		{Name: "new", ContainerID: "", State: running}}
	got, err := o.Measure(t.Context(), v1.ResourceMemory, []*v1.Pod{p, gone})
	u := got["up"]
	if err != nil || len(got) != 1 || *u.Memory != 400*mi || len(u.Containers) != 0 {
		t.Errorf("memory: got %+v, %v, want 400Mi of the Pod, nothing of containers and of the Pod without a cgroup",
			got, err)
	}
	if c := o.Containers(p); len(c) != 1 || c[0].Name != "app" || *c[0].Memory != 300*mi {
		t.Errorf("containers: got %+v, want 300Mi of app", c)
	}
	if got, err = o.Measure(t.Context(), eviction.ResourcePIDs, []*v1.Pod{p}); err != nil || got["up"].Processes != 3 {
		t.Errorf("processes: got %+v, %v, want 3", got, err)
	}
	o.Full = func(context.Context) (*stats.Snapshot, error) {
		return &stats.Snapshot{Pods: []stats.Pod{{UID: "up", Volumes: []stats.Volume{{Name: "v",
			Disk: usage.Disk{Used: 7}, Inodes: 3}}, Containers: []stats.Container{{Name: "app",
			Layer: &usage.Space{Bytes: 5, Inodes: 2}}}}}}, nil
	}
	for _, of := range []v1.ResourceName{v1.ResourceEphemeralStorage, eviction.ResourceInodes} {
		got, err = o.Measure(t.Context(), of, []*v1.Pod{p})
		u = got["up"]
		if err != nil || u.Volumes["v"] != (eviction.Space{Bytes: 7, Inodes: 3}) ||
			*u.Containers[0].Layer != (eviction.Space{Bytes: 5, Inodes: 2}) || u.Containers[0].Logs != nil {
			t.Errorf("%s: got %+v, %v, want what the snapshot has", of, got, err)
		}
	}
}

// slowImages is a runtime that does not answer before it is let.
type slowImages struct {
	images
	let   chan struct{}
	asked chan struct{}
}

func (s slowImages) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	s.asked <- struct{}{}
	<-s.let
	return s.images.ImageFsInfo(ctx)
}

// A runtime that does not say where its files are holds up the first look for a moment, and no
// other one.
//
// row: EVC-09
func TestARuntimeThatDoesNotAnswerHoldsUpNoLook(t *testing.T) {
	tree := trees(t, gi)["v2"]
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := slowImages{images{dir, dir}, make(chan struct{}), make(chan struct{}, 10)}
		o := observer(tree, dir)
		o.Images = s
		look := func(most time.Duration, imageFs bool) {
			t.Helper()
			begun := time.Now()
			f, _, err := o.Observe(t.Context())
			if took := time.Since(begun); err != nil || f.Memory == nil || took > most {
				t.Errorf("got %+v, %v after %s, want memory within %s", f, err, took, most)
			}
			if (f.ImageFs.Bytes != nil) != imageFs {
				t.Errorf("got %+v of the images, want it known: %t", f.ImageFs, imageFs)
			}
		}
		look(2*time.Second, false)
		look(0, false)
		close(s.let)
		synctest.Wait()
		look(0, true)
		if len(s.asked) != 1 {
			t.Errorf("the runtime was asked %d times, want once", len(s.asked))
		}
		s.let = make(chan struct{})
		o.Images = s
		time.Sleep(11 * time.Minute)
		look(0, true) // the last answer, while it is asked again
		close(s.let)
		synctest.Wait()
	})
}
