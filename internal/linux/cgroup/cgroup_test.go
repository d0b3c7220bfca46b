package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/test/expect"
)

func ptr[T any](v T) *T { return &v }

// fixture lays out a directory as the kernel shows a cgroup tree.
func fixture(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b))
}

func TestOpenRefusesBadRoots(t *testing.T) {
	v2 := fixture(t, map[string]string{"cgroup.controllers": "cpu memory"})
	for _, root := range []string{"", "/", ".", "/a/.."} {
		if _, err := cgroup.Open(cgroup.Options{Mount: v2, Root: root}); err == nil {
			t.Errorf("root %q would let us write everywhere", root)
		}
	}
	tree, err := cgroup.Open(cgroup.Options{Mount: v2, Root: "kubepods"})
	if err != nil || tree.Version() != 2 || tree.Root() != "/kubepods" {
		t.Errorf("got %v, %v, want no error, tree.Version() 2 and tree.Root() /kubepods", tree, err)
	}
	if _, err := cgroup.Open(cgroup.Options{Mount: t.TempDir(), Root: "/kubepods"}); err == nil ||
		!strings.Contains(err.Error(), "mount -t cgroup") {
		t.Errorf("nothing mounted: %v", err)
	}
	v1 := map[string]string{}
	for _, c := range []string{"cpu,cpuacct", "cpuset", "memory", "unified"} {
		v1[c+"/cgroup.procs"] = ""
	}
	if tree, err := cgroup.Open(cgroup.Options{Mount: fixture(t, v1), Root: "/kubepods"}); err != nil ||
		tree.Version() != 1 {
		t.Errorf("got %v, %v, want no error and tree.Version() 1", tree, err)
	}
}

func TestCgroupsOutsideTheTree(t *testing.T) {
	tree, err := cgroup.Open(cgroup.Options{Mount: fixture(t, map[string]string{"cgroup.controllers": ""}),
		Root: "/gantry-1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/", "/kubepods", "/gantry-1/../x", "/gantry-10", "/gantry-1x/a"} {
		if err := tree.Ensure(p, cgroup.Values{}); !errors.Is(err, cgroup.ErrOutside) {
			t.Errorf("ensure %s: %v", p, err)
		}
		if err := tree.Remove(p); !errors.Is(err, cgroup.ErrOutside) {
			t.Errorf("remove %s: %v", p, err)
		}
	}
}

// The kernel creates a cgroup's files with its directory; the fixture has them beforehand.
//
// row: QOS-10
func TestVersion2(t *testing.T) {
	const pod = "gantry-1/kubepods/burstable/podx"
	files := map[string]string{}
	for _, dir := range []string{".", "gantry-1", "gantry-1/kubepods", "gantry-1/kubepods/burstable", pod} {
		files[dir+"/cgroup.controllers"] = "cpuset cpu io memory pids rdma"
		files[dir+"/cgroup.subtree_control"] = "cpu"
	}
	for _, f := range []string{"cpu.weight", "cpu.max", "memory.max", "memory.min", "pids.max", "hugetlb.2MB.max"} {
		files[pod+"/"+f] = ""
	}
	dir := fixture(t, files)
	tree, err := cgroup.Open(cgroup.Options{Mount: dir, Root: "/gantry-1"})
	if err != nil {
		t.Fatal(err)
	}
	v := cgroup.Values{
		Shares: ptr(uint64(1024)), Quota: ptr(int64(50000)), Period: ptr(uint64(100000)), Memory: ptr(int64(64 << 20)),
		Pids:      ptr(int64(-1)),
		Hugepages: map[int64]int64{2 << 20: 4 << 20, 1 << 30: 0}, Unified: map[string]string{"memory.min": "1048576"},
	}
	if err := tree.Ensure("/"+pod, v); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range []string{"cpu.weight", "cpu.max", "memory.max", "memory.min", "pids.max", "hugetlb.2MB.max"} {
		got[f] = text(t, dir, pod, f)
	}
	want := map[string]string{"cpu.weight": "100", "cpu.max": "50000 100000", "memory.max": "67108864",
		"memory.min": "1048576", "pids.max": "max", "hugetlb.2MB.max": "4194304"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	// A file keeps the last write only: pids is the last controller that was missing.
	for _, level := range []string{".", "gantry-1", "gantry-1/kubepods", pod} {
		if got := text(t, dir, level, "cgroup.subtree_control"); got != "+pids" {
			t.Errorf("%s passes on %q", level, got)
		}
	}
	if err := tree.Ensure("/"+pod, cgroup.Values{Unified: map[string]string{"../x": "1"}}); err == nil {
		t.Error("a file outside the cgroup is written")
	}
	if err := tree.Ensure("/"+pod, cgroup.Values{Unified: map[string]string{"memory.zzz": "1"}}); err == nil {
		t.Error("a file the kernel does not have is no error")
	}
}

// row: QOS-10
func TestVersion2PassesOnCPUMemoryAndIO(t *testing.T) {
	for _, controller := range []string{"cpu", "memory", "io"} {
		dir := fixture(t, map[string]string{"cgroup.controllers": controller, "cgroup.subtree_control": "",
			"gantry-1/cgroup.controllers": "", "gantry-1/cgroup.subtree_control": ""})
		tree, err := cgroup.Open(cgroup.Options{Mount: dir, Root: "/gantry-1"})
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Ensure("/gantry-1", cgroup.Values{}); err != nil {
			t.Fatal(err)
		}
		if got := text(t, dir, "cgroup.subtree_control"); got != "+"+controller {
			t.Errorf("of %s the root passes on %q, want +%s", controller, got, controller)
		}
	}
}

func TestVersion2Usage(t *testing.T) {
	dir := fixture(t, map[string]string{
		"cgroup.controllers": "", "a/cpu.stat": "usage_usec 1500\nuser_usec 1000\n", "a/memory.current": "10000\n",
		"a/memory.max": "max\n", "a/pids.current": "3\n",
		"a/memory.stat": "anon 6000\nfile 4000\ninactive_file 2500\npgfault 70\npgmajfault 7\n",
	})
	tree, err := cgroup.Open(cgroup.Options{Mount: dir, Root: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tree.Usage("/a")
	want := cgroup.Usage{CPUNanos: 1500000, MemoryBytes: 10000, WorkingSetBytes: 7500, RSSBytes: 6000, PageFaults: 70,
		MajorPageFaults: 7, Pids: 3}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("got %v, %v, want d empty and no error", d, err)
	}
	if _, err := tree.Usage("/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want an error ErrNotExist", err)
	}
}

func TestWeight(t *testing.T) {
	// measured with runc 1.5.2, LAB part 1
	for shares, want := range map[uint64]uint64{0: 0, 2: 1, 512: 59, 1024: 100, 262144: 10000, 300000: 10000} {
		if got := cgroup.Weight(shares); got != want {
			t.Errorf("%d shares weigh %d, want %d", shares, got, want)
		}
	}
	for s := uint64(3); s < 262144; s += 97 {
		if cgroup.Weight(s) < cgroup.Weight(s-1) {
			t.Fatalf("%d shares weigh less than %d", s, s-1)
		}
	}
}

// real opens a tree of our own in the kernel's hierarchies and removes it afterwards.
func real(t *testing.T, mount string) (*cgroup.Tree, string) {
	if os.Getuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	root := fmt.Sprintf("/gantry-test-%d-%s", os.Getpid(), strings.ToLower(filepath.Base(t.Name())))
	tree, err := cgroup.Open(cgroup.Options{Mount: mount, Root: root})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(root); err != nil {
			t.Error(err)
		}
		if tree.Exists(root) {
			t.Errorf("%s is left", root)
		}
	})
	return tree, root
}

func TestVersion1ForReal(t *testing.T) {
	tree, root := real(t, "")
	if tree.Version() != 1 {
		t.Skip("this machine has no cgroup v1")
	}
	pod := root + "/kubepods/burstable/podx"
	v := cgroup.Values{Shares: ptr(uint64(512)), Quota: ptr(int64(50000)), Period: ptr(uint64(100000)),
		Memory: ptr(int64(64 << 20)), Pids: ptr(int64(100)), Hugepages: map[int64]int64{2 << 20: 0}}
	for range 2 {
		if err := tree.Ensure(pod, v); err != nil {
			t.Fatal(err)
		}
	}
	const fs = "/sys/fs/cgroup"
	for file, want := range map[string]string{
		"cpu" + pod + "/cpu.shares": "512", "cpu" + pod + "/cpu.cfs_quota_us": "50000",
		"cpu" + pod + "/cpu.cfs_period_us":        "100000",
		"memory" + pod + "/memory.limit_in_bytes": "67108864", "pids" + pod + "/pids.max": "100",
		"cpuset" + pod + "/cpuset.cpus":  text(t, fs, "cpuset/cpuset.cpus"),
		"cpuset" + root + "/cpuset.mems": text(t, fs, "cpuset/cpuset.mems"),
	} {
		if got := text(t, fs, file); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	// A resize may need the quota before the period: the parent's share bounds every intermediate
	// state.
	if err := tree.Ensure(root+"/kubepods",
		cgroup.Values{Quota: ptr(int64(100000)), Period: ptr(uint64(100000))}); err != nil {
		t.Fatal(err)
	}
	if err := tree.Ensure(pod, cgroup.Values{Quota: ptr(int64(9000)), Period: ptr(uint64(10000))}); err != nil {
		t.Error(err)
	}
	if err := tree.Ensure(pod, cgroup.Values{Memory: ptr(int64(-1)), Quota: ptr(int64(-1)),
		Pids: ptr(int64(-1))}); err != nil {
		t.Error(err)
	}
	if names, err := tree.List(root + "/kubepods/burstable"); err != nil || len(names) != 1 || names[0] != "podx" {
		t.Errorf("got %v, %v, want no error, 1 in names and names[0] podx", names, err)
	}
	if names, err := tree.List(root + "/none"); err != nil || len(names) != 0 {
		t.Errorf("got %v, %v, want no error and no names", names, err)
	}
}

// A cgroup with processes, in itself and below, some of them frozen, is emptied and removed; nobody
// else is touched.
func TestRemoveForReal(t *testing.T) {
	for name, mount := range map[string]string{"v1": "", "v2": "/sys/fs/cgroup/unified"} {
		t.Run(name, func(t *testing.T) {
			tree, root := real(t, mount)
			dirs := []string{mount + root + "/pod/leaf"}
			if mount == "" && tree.Version() == 1 {
				dirs = []string{"/sys/fs/cgroup/memory" + root + "/pod/leaf",
					"/sys/fs/cgroup/freezer" + root + "/pod/leaf", "/sys/fs/cgroup/unified" + root + "/pod/leaf"}
			}
			for _, p := range []string{root + "/pod", root + "/other"} {
				if err := tree.Ensure(p, cgroup.Values{}); err != nil {
					t.Fatal(err)
				}
			}
			inside, bystander := sleeper(t), sleeper(t)
			for _, dir := range dirs {
				expect.NoError(t, os.MkdirAll(dir, 0o755)) // as the runtime does
				if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(inside)), 0); err != nil {
					t.Fatal(err)
				}
			}
			if mount == "" && tree.Version() == 1 {
				if err := os.WriteFile("/sys/fs/cgroup/freezer"+root+"/pod/leaf/freezer.state", []byte("FROZEN"),
					0); err != nil {
					t.Error(err)
				}
			}
			if pids, err := tree.Processes(root + "/pod"); err != nil || len(pids) != 1 || pids[0] != inside {
				t.Errorf("processes %v %v, want %d", pids, err, inside)
			}
			startedAt := time.Now()
			for range 2 {
				if err := tree.Remove(root + "/pod"); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(startedAt); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			if tree.Exists(root+"/pod") || !tree.Exists(root+"/other") {
				t.Errorf("/pod is there: %v, want false; /other is there: %v, want true", tree.Exists(root+"/pod"),
					tree.Exists(root+"/other"))
			}
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", bystander)); err != nil {
				t.Error("a process elsewhere was killed")
			}
		})
	}
}

// sleeper starts a process of our own that waits to be killed.
func sleeper(t *testing.T) int {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = c.Wait(); close(done) }()
	t.Cleanup(func() { _ = c.Process.Kill(); <-done })
	return c.Process.Pid
}

func TestUsageForReal(t *testing.T) {
	tree, root := real(t, "")
	if err := tree.Ensure(root+"/a", cgroup.Values{Memory: ptr(int64(32 << 20))}); err != nil {
		t.Fatal(err)
	}
	u, err := tree.Usage(root + "/a")
	if err != nil || u.MemoryLimitBytes != 32<<20 {
		t.Errorf("got %+v %v, want no error and MemoryLimitBytes %v", u, err, 32<<20)
	}
	if u, err := tree.Usage(root); err != nil || tree.Version() == 1 && u.MemoryLimitBytes != 0 {
		t.Errorf("no limit reads as %d, %v", u.MemoryLimitBytes, err)
	}
	if u, err := tree.Usage("/"); err != nil || u.MemoryBytes == 0 || u.CPUNanos == 0 {
		t.Errorf("the node uses: got %+v, %v, want no error and MemoryBytes other than 0 and CPUNanos other than 0",
			u, err)
	}
}
