package resource_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	r "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/test/wrappers"
)

// list reads "cpu=1 memory=2Gi".
func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(name string, requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func podOf(containers ...v1.Container) *v1.Pod {
	return wrappers.MakePod().UID("0a1b-2c").Containers(containers...).Obj()
}

var (
	guaranteed = podOf(container("c", list("cpu", "2", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi")))
	burstable  = podOf(container("c", list("cpu", "100m", "memory", "64Mi"), nil))
	bestEffort = podOf(container("c", nil, nil))
)

// row: QOS-01
// row: QOS-02
// row: QOS-03
func TestQOSClass(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want v1.PodQOSClass
	}{
		"requests equal limits":     {guaranteed, v1.PodQOSGuaranteed},
		"requests only":             {burstable, v1.PodQOSBurstable},
		"nothing":                   {bestEffort, v1.PodQOSBestEffort},
		"cpu equal, memory missing": {podOf(container("c", list("cpu", "1"), list("cpu", "1"))), v1.PodQOSBurstable},
		"limit above request": {
			podOf(container("c", list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"))),
			v1.PodQOSBurstable},
		"limit only, memory only": {podOf(container("c", nil, list("memory", "1Gi"))), v1.PodQOSBurstable},
		"only a device": {
			podOf(container("c", list("example.com/gpu", "1"), list("example.com/gpu", "1"))), v1.PodQOSBestEffort},
		"one guaranteed, one empty": {podOf(guaranteed.Spec.Containers[0], container("d", nil, nil)),
			v1.PodQOSBurstable},
		"zero requests count as none": {podOf(container("c", list("cpu", "0"), nil)), v1.PodQOSBestEffort},
		"memory equal, cpu missing": {podOf(container("c", list("memory", "1Gi"), list("memory", "1Gi"))),
			v1.PodQOSBurstable},
		"limit of memory above its request": {
			podOf(container("c", list("cpu", "1", "memory", "1Gi"), list("cpu", "1", "memory", "2Gi"))),
			v1.PodQOSBurstable},
		"cpu only":        {podOf(container("c", list("cpu", "1m"), nil)), v1.PodQOSBurstable},
		"limit only, cpu": {podOf(container("c", nil, list("cpu", "1m"))), v1.PodQOSBurstable},
		"two guaranteed": {podOf(guaranteed.Spec.Containers[0],
			container("d", list("cpu", "1", "memory", "1Gi"), list("cpu", "1", "memory", "1Gi"))), v1.PodQOSGuaranteed},
		"the second above its requests": {podOf(guaranteed.Spec.Containers[0],
			container("d", list("cpu", "1", "memory", "1Gi"), list("cpu", "1", "memory", "2Gi"))), v1.PodQOSBurstable},
		"the second alone asks": {podOf(container("c", nil, nil), container("d", list("memory", "1Mi"), nil)),
			v1.PodQOSBurstable},
		"guaranteed, its init container empty": {withInit(guaranteed, container("i", nil, nil)), v1.PodQOSBurstable},
		"guaranteed, its init container too": {withInit(guaranteed, guaranteed.Spec.Containers[0]),
			v1.PodQOSGuaranteed},
		"only the init container asks": {withInit(bestEffort, container("i", list("cpu", "1"), nil)),
			v1.PodQOSBurstable},
		"guaranteed, and a device": {podOf(container("c",
			list("cpu", "1", "memory", "1Gi", "example.com/gpu", "1", "ephemeral-storage", "1Gi"),
			list("cpu", "1", "memory", "1Gi", "example.com/gpu", "1", "ephemeral-storage", "2Gi"))),
			v1.PodQOSGuaranteed},
		"only local storage and huge pages": {
			podOf(container("c", list("ephemeral-storage", "1Gi", "hugepages-2Mi", "4Mi"),
				list("hugepages-2Mi", "4Mi"))),
			v1.PodQOSBestEffort},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.QOS(tc.pod); got != tc.want {
				t.Errorf("class %s, want %s", got, tc.want)
			}
		})
	}
}

func withInit(p *v1.Pod, c v1.Container) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.InitContainers = []v1.Container{c}
	return p
}

// row: QOS-07
func TestCgroupPaths(t *testing.T) {
	for name, tc := range map[string]struct {
		o    r.Options
		pod  *v1.Pod
		path string
		cri  string
	}{
		"cgroupfs burstable": {r.Options{}, burstable, "/kubepods/burstable/pod0a1b-2c",
			"/kubepods/burstable/pod0a1b-2c"},
		"cgroupfs besteffort": {r.Options{}, bestEffort, "/kubepods/besteffort/pod0a1b-2c",
			"/kubepods/besteffort/pod0a1b-2c"},
		"cgroupfs guaranteed": {r.Options{}, guaranteed, "/kubepods/pod0a1b-2c", "/kubepods/pod0a1b-2c"},
		"cgroupfs with a root": {r.Options{Root: "/gantry-1"}, burstable, "/gantry-1/kubepods/burstable/pod0a1b-2c",
			"/gantry-1/kubepods/burstable/pod0a1b-2c"},
		"systemd burstable": {
			r.Options{Driver: r.Systemd}, burstable,
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c.slice",
			"kubepods-burstable-pod0a1b_2c.slice",
		},
		"systemd guaranteed": {r.Options{Driver: r.Systemd}, guaranteed, "/kubepods.slice/kubepods-pod0a1b_2c.slice",
			"kubepods-pod0a1b_2c.slice"},
		"systemd with a root": {
			r.Options{Driver: r.Systemd, Root: "gantry-1"}, bestEffort,
			"/gantry_1.slice/gantry_1-kubepods.slice/gantry_1-kubepods-besteffort.slice/gantry_1-kubepods-besteffort-pod0a1b_2c.slice",
			"gantry_1-kubepods-besteffort-pod0a1b_2c.slice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.o.PodPath(tc.pod); got != tc.path {
				t.Errorf("path %s, want %s", got, tc.path)
			}
			if got := tc.o.CgroupParent(tc.pod); got != tc.cri {
				t.Errorf("cgroup_parent %s, want %s", got, tc.cri)
			}
			if uid, ok := tc.o.UIDOf(tc.path); !ok || uid != tc.pod.UID {
				t.Errorf("uid %q %v read back from %s", uid, ok, tc.path)
			}
		})
	}
	if _, ok := (r.Options{}).UIDOf("/kubepods/burstable"); ok {
		t.Error("the tier itself is taken for a Pod")
	}
	want := []string{"/kubepods", "/kubepods/burstable", "/kubepods/besteffort"}
	if d := cmp.Diff(want, r.Options{}.Tree()); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

func ptr[T any](v T) *T { return &v }

// row: ISE-15
// row: QOS-04
func TestPodValues(t *testing.T) {
	o := r.Options{CFSQuota: true}
	withPodLevel := podOf(container("c", nil, nil), container("d", nil, nil))
	withPodLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "500m"),
		Limits: list("cpu", "1", "memory", "100Mi")}
	overhead := podOf(container("c", list("cpu", "100m"), nil))
	overhead.Spec.Overhead = list("cpu", "50m")
	initBig := podOf(container("c", list("cpu", "100m"), list("cpu", "100m", "memory", "10Mi")))
	initBig.Spec.InitContainers = []v1.Container{container("i", list("cpu", "1"), list("cpu", "1", "memory", "50Mi"))}
	limited := container("c", list("cpu", "100m"), list("cpu", "100m", "memory", "10Mi"))
	withSidecar, openSidecar := podOf(limited), podOf(limited)
	openInit, limitedOverhead := podOf(limited), podOf(limited)
	withSidecar.Spec.InitContainers = []v1.Container{container("s", list("cpu", "500m"),
		list("cpu", "500m", "memory", "20Mi"))}
	openSidecar.Spec.InitContainers, openInit.Spec.InitContainers = []v1.Container{container("s", nil, nil)},
		[]v1.Container{container("i", nil, nil)}
	withSidecar.Spec.InitContainers[0].RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	openSidecar.Spec.InitContainers[0].RestartPolicy = ptr(v1.ContainerRestartPolicyAlways)
	limitedOverhead.Spec.Overhead = list("cpu", "50m", "memory", "20Mi")
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		o    r.Options
		want r.Values
	}{
		"guaranteed": {guaranteed, o, r.Values{Shares: ptr(uint64(2048)), Quota: ptr(int64(200000)),
			Period: ptr(uint64(100000)), Memory: ptr(int64(1 << 30))}},
		"burstable, no limits": {burstable, o, r.Values{Shares: ptr(uint64(102))}},
		"best effort":          {bestEffort, o, r.Values{Shares: ptr(uint64(2))}},
		"one container without a limit leaves the Pod open": {
			podOf(container("c", list("cpu", "1"), list("cpu", "1", "memory", "1Gi")),
				container("d", list("cpu", "1"), list("memory", "1Gi"))), o,
			r.Values{Shares: ptr(uint64(2048)), Memory: ptr(int64(2 << 30))},
		},
		"pod-level": {withPodLevel, o, r.Values{Shares: ptr(uint64(512)), Quota: ptr(int64(100000)),
			Period: ptr(uint64(100000)), Memory: ptr(int64(100 << 20))}},
		"overhead counts": {overhead, o, r.Values{Shares: ptr(uint64(153))}},
		"a big init container counts": {
			initBig, o, r.Values{Shares: ptr(uint64(1024)), Quota: ptr(int64(100000)), Period: ptr(uint64(100000)),
				Memory: ptr(int64(50 << 20))},
		},
		"a sidecar counts with the app containers": {
			withSidecar, o, r.Values{Shares: ptr(uint64(614)), Quota: ptr(int64(60000)), Period: ptr(uint64(100000)),
				Memory: ptr(int64(30 << 20))},
		},
		"a sidecar without limits leaves the Pod open": {
			openSidecar, o, r.Values{Shares: ptr(uint64(102))},
		},
		"an init container without limits too": {
			openInit, o, r.Values{Shares: ptr(uint64(102))},
		},
		"overhead counts for limits": {
			limitedOverhead, o, r.Values{Shares: ptr(uint64(153)), Quota: ptr(int64(15000)),
				Period: ptr(uint64(100000)), Memory: ptr(int64(30 << 20))},
		},
		"tiny limit gets the least quota": {
			podOf(container("c", list("cpu", "1m"), list("cpu", "1m"))), o,
			r.Values{Shares: ptr(uint64(2)), Quota: ptr(int64(1000)), Period: ptr(uint64(100000))},
		},
		"quota switched off": {guaranteed, r.Options{}, r.Values{Shares: ptr(uint64(2048)), Quota: ptr(int64(-1)),
			Period: ptr(uint64(100000)), Memory: ptr(int64(1 << 30))}},
		"own period": {guaranteed, r.Options{CFSQuota: true, Period: 10 * time.Millisecond},
			r.Values{Shares: ptr(uint64(2048)), Quota: ptr(int64(20000)), Period: ptr(uint64(10000)),
				Memory: ptr(int64(1 << 30))}},
		"pids": {bestEffort, r.Options{PodPids: 100}, r.Values{Shares: ptr(uint64(2)), Pids: ptr(int64(100))}},
		"huge pages": {
			podOf(container("c", list("cpu", "1", "hugepages-2Mi", "4Mi"), list("hugepages-2Mi", "4Mi"))), o,
			r.Values{Shares: ptr(uint64(1024)), Hugepages: map[int64]int64{2 << 20: 4 << 20}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, r.ForPod(tc.pod, tc.o)); d != "" {
				t.Errorf("the two differ (-want +got):\n%s", d)
			}
		})
	}
}

// row: QOS-11
func TestMemoryQoS(t *testing.T) {
	tiered := r.Options{Unified: true, MemoryQoS: true, TieredReservation: true, ThrottlingFactor: 0.9}
	throttled := r.Options{Unified: true, MemoryQoS: true, ThrottlingFactor: 0.5}
	more := podOf(container("c", list("memory", "100Mi"), list("memory", "200Mi")))
	even := podOf(container("c", list("cpu", "1", "memory", "100Mi"), list("cpu", "1", "memory", "100Mi")))
	open := podOf(container("c", list("memory", "100Mi"), nil))
	podOnly := podOf(container("c", list("memory", "100Mi"), nil))
	podOnly.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "400Mi")}
	node := r.Node{MemoryBytes: 1 << 30, Allocatable: list("memory", "1000Mi")}
	for name, tc := range map[string]struct {
		pod            *v1.Pod
		o              r.Options
		ofPod, wantSet map[string]string
	}{
		"a Guaranteed Pod's request is never taken": {even, tiered, map[string]string{"memory.min": "104857600"},
			map[string]string{"memory.min": "104857600"}},
		// request + 0.9 × (limit − request), whole pages
		"a Burstable Pod's while others can give": {more, tiered, map[string]string{"memory.low": "104857600"},
			map[string]string{"memory.low": "104857600", "memory.high": "199229440"}},
		"the policy None keeps nothing": {more, throttled, nil,
			map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "157286400"}},
		"without a limit by what the node can give": {open, throttled, nil,
			map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "576716800"}},
		// request + 0.5 × (the Pod's limit − request)
		"under the Pod's limit with the Pod": {podOnly, throttled, map[string]string{"memory.high": "262144000"},
			map[string]string{"memory.min": "0", "memory.low": "0"}},
		"no factor": {more, r.Options{Unified: true, MemoryQoS: true}, nil,
			map[string]string{"memory.min": "0", "memory.low": "0"}},
		"gate off": {more, r.Options{Unified: true, TieredReservation: true}, nil,
			map[string]string{"memory.high": "max"}},
		"cgroup v1": {more, r.Options{MemoryQoS: true, TieredReservation: true, ThrottlingFactor: 0.9}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.ofPod, r.ForPod(tc.pod, tc.o).Unified); d != "" {
				t.Errorf("the Pod's cgroup (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.wantSet, r.ForContainer(tc.pod, &tc.pod.Spec.Containers[0], node, tc.o).Unified); d !=
				"" {
				t.Errorf("the container's cgroup (-want +got):\n%s", d)
			}
		})
	}
}

// TestLimitedSwap: a container of a Burstable Pod may swap by its part of the node's memory, if it
// may use more than it requests; nobody else may.
func TestLimitedSwap(t *testing.T) {
	limited := r.Options{Unified: true, Swap: r.Swap{Counted: true, Limited: true, Bytes: 1 << 30}}
	burst := podOf(container("c", list("memory", "256Mi"), list("memory", "512Mi")))
	even := podOf(container("c", list("memory", "256Mi"), list("memory", "256Mi")))
	critical := burst.DeepCopy()
	critical.Spec.Priority = ptr(int32(2000000000))
	guaranteedPod := podOf(container("c", list("cpu", "1", "memory", "256Mi"), list("cpu", "1", "memory", "256Mi")))
	huge := podOf(container("c", list("memory", "2Gi"), nil))
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		o    r.Options
		want string
	}{
		"a quarter of the memory, a quarter of the swap": {burst, limited, "268435456"},
		"requests all that it may use":                   {even, limited, "0"},
		"critical":                                       {critical, limited, "0"},
		"Guaranteed":                                     {guaranteedPod, limited, "0"},
		"BestEffort":                                     {bestEffort, limited, "0"},
		"more than the node has":                         {huge, limited, "0"},
		"NoSwap": {burst,
			r.Options{Unified: true, Swap: r.Swap{Counted: true, Bytes: 1 << 30}}, "0"},
		"not counted": {burst, r.Options{Unified: true, Swap: r.Swap{Limited: true, Bytes: 1 << 30}}, ""},
	} {
		got := r.ForContainer(tc.pod, &tc.pod.Spec.Containers[0], r.Node{MemoryBytes: 1 << 30},
			tc.o).Unified["memory.swap.max"]
		if got != tc.want {
			t.Errorf("%s: got memory.swap.max %q, want %q", name, got, tc.want)
		}
	}
}

// TestNoSwapOnVersion1: on cgroup v1 memory and swap together are bounded by the limit of memory,
// whatever swapBehavior says, where the kernel counts swap.
func TestNoSwapOnVersion1(t *testing.T) {
	burst := podOf(container("c", list("memory", "256Mi"), list("memory", "512Mi")))
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		swap r.Swap
		want int64
	}{
		"NoSwap":      {burst, r.Swap{Counted: true}, 512 << 20},
		"LimitedSwap": {burst, r.Swap{Counted: true, Limited: true, Bytes: 1 << 30}, 512 << 20},
		"no limit":    {bestEffort, r.Swap{Counted: true}, 0},
		"not counted": {burst, r.Swap{}, 0},
	} {
		got := r.ForContainer(tc.pod, &tc.pod.Spec.Containers[0], r.Node{MemoryBytes: 1 << 30},
			r.Options{Swap: tc.swap})
		if got.MemorySwapLimitInBytes != tc.want || got.Unified != nil {
			t.Errorf("%s: got %d and %v, want %d", name, got.MemorySwapLimitInBytes, got.Unified, tc.want)
		}
	}
}

// row: QOS-04
// row: CRI-18
func TestContainerValues(t *testing.T) {
	p := podOf(
		container("limited", list("cpu", "250m", "memory", "64Mi"), list("cpu", "500m", "memory", "128Mi")),
		container("limit-only", nil, list("cpu", "1")),
		container("open", nil, nil),
	)
	node := r.Node{MemoryBytes: 1 << 30}
	for i, want := range []struct{ shares, quota, period, memory, oom int64 }{
		{256, 50000, 100000, 128 << 20, 938}, // 1000 − 1000·64/1024
		{1024, 100000, 100000, 0, 999},
		{2, 0, 100000, 0, 999},
	} {
		got := r.ForContainer(p, &p.Spec.Containers[i], node, r.Options{CFSQuota: true})
		if got.MemorySwapLimitInBytes != 0 {
			t.Errorf("%s: memory and swap together are bounded by %d", p.Spec.Containers[i].Name,
				got.MemorySwapLimitInBytes)
		}
		if got.CpuShares != want.shares || got.CpuQuota != want.quota || got.CpuPeriod != want.period ||
			got.MemoryLimitInBytes != want.memory || got.OomScoreAdj != want.oom {
			t.Errorf("%s: %v, want %+v", p.Spec.Containers[i].Name, got, want)
		}
	}
	p.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "1Gi")}
	if got := r.ForContainer(p, &p.Spec.Containers[2], node, r.Options{}).MemoryLimitInBytes; got != 1<<30 {
		t.Errorf("a container without a limit is bounded by %d, want the Pod's 1Gi", got)
	}
}

func TestOOMScore(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	withSidecar := podOf(container("c", list("memory", "512Mi"), nil))
	withSidecar.Spec.InitContainers = []v1.Container{container("s", list("memory", "1Mi"), nil)}
	withSidecar.Spec.InitContainers[0].RestartPolicy = &always
	critical := podOf(container("c", nil, nil))
	critical.Spec.PriorityClassName, critical.Spec.Priority = "system-node-critical", ptr(int32(2000001000))
	huge := podOf(container("c", list("memory", "1Gi"), nil))
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		c    *v1.Container
		want int64
	}{
		"guaranteed":                             {guaranteed, &guaranteed.Spec.Containers[0], -997},
		"best effort":                            {bestEffort, &bestEffort.Spec.Containers[0], 1000},
		"node critical":                          {critical, &critical.Spec.Containers[0], -997},
		"asks for all memory":                    {huge, &huge.Spec.Containers[0], 3},
		"a sidecar is as safe as its Pod's main": {withSidecar, &withSidecar.Spec.InitContainers[0], 500},
	} {
		if got := r.OOMScoreAdj(tc.pod, tc.c, 1<<30); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// With TieredReservation the tiers keep what their Pods request; the cgroup of all Pods covers both
// chains.
//
// row: QOS-11
func TestTiersKeepMemory(t *testing.T) {
	pods := []*v1.Pod{podOf(container("c", list("cpu", "1", "memory", "100Mi"), list("cpu", "1", "memory", "100Mi"))),
		podOf(container("c", list("memory", "30Mi"), nil)), podOf(container("c", list("memory", "20Mi"), nil)),
		bestEffort}
	tiered := r.Options{Unified: true, MemoryQoS: true, TieredReservation: true}
	if d := cmp.Diff(map[string]string{"memory.min": "157286400", "memory.low": "52428800"},
		r.ForAllPods(pods, tiered).Unified); d != "" {
		t.Errorf("all Pods (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"memory.low": "52428800"}, r.ForBurstable(pods, tiered).Unified); d != "" {
		t.Errorf("the burstable tier (-want +got):\n%s", d)
	}
	if min, low := r.ProtectedMemory(pods, tiered); min != 100<<20 || low != 50<<20 {
		t.Errorf("got %d and %d bytes that are kept, want those of the Guaranteed Pod and of the Burstable ones", min,
			low)
	}
	if min, low := r.ProtectedMemory(pods, r.Options{Unified: true, MemoryQoS: true}); min != 0 || low != 0 {
		t.Errorf("got %d and %d bytes that are kept without TieredReservation, want none", min, low)
	}
	// what an earlier kubelet wrote is taken away; cgroup v1 has no such files
	for name, o := range map[string]r.Options{"policy None": {Unified: true, MemoryQoS: true},
		"gate off": {Unified: true, TieredReservation: true}} {
		if d := cmp.Diff(map[string]string{"memory.min": "0", "memory.low": "0"},
			r.ForAllPods(pods, o).Unified); d != "" {
			t.Errorf("%s, all Pods (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(map[string]string{"memory.low": "0"}, r.ForBurstable(pods, o).Unified); d != "" {
			t.Errorf("%s, the burstable tier (-want +got):\n%s", name, d)
		}
	}
	v1 := r.Options{MemoryQoS: true, TieredReservation: true}
	if d := cmp.Diff(r.Values{}, r.ForAllPods(pods, v1)); d != "" || r.ForBurstable(pods, v1).Unified != nil {
		t.Errorf("cgroup v1: got %+v, %+v, want no files", r.ForAllPods(pods, v1), r.ForBurstable(pods, v1))
	}
}

// row: QOS-04, QOS-05
func TestQOSCgroupValues(t *testing.T) {
	if d := cmp.Diff(r.Values{Shares: ptr(uint64(2))}, r.ForBestEffort()); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	pods := []*v1.Pod{burstable, guaranteed, bestEffort, podOf(container("c", list("cpu", "900m"), nil))}
	if d := cmp.Diff(r.Values{Shares: ptr(uint64(1024))}, r.ForBurstable(pods, r.Options{})); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	got := r.ForPods(list("cpu", "4", "memory", "8Gi"), r.Reserved{System: list("cpu", "500m", "memory", "1Gi"),
		Kube: list("cpu", "500m"), Eviction: list("memory", "100Mi")})
	if d := cmp.Diff(r.Values{Shares: ptr(uint64(3072)), Memory: ptr(int64(7 << 30))}, got); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

// row: QOS-13
// row: FIL-14
func TestAllocatable(t *testing.T) {
	got := r.Allocatable(
		list("cpu", "4", "memory", "8Gi", "ephemeral-storage", "100Gi", "pods", "110", "hugepages-2Mi", "1Gi"),
		r.Reserved{System: list("cpu", "500m", "memory", "1Gi"), Kube: list("cpu", "250m", "memory", "512Mi"),
			Eviction: list("memory", "100Mi", "ephemeral-storage", "10Gi")},
	)
	want := list("cpu", "3250m", "memory", "5532Mi", "ephemeral-storage", "90Gi", "pods", "110", "hugepages-2Mi", "1Gi")
	for name, q := range want {
		g := got[name]
		if g.Cmp(q) != 0 {
			t.Errorf("%s: %s, want %s", name, g.String(), q.String())
		}
	}
	none := r.Allocatable(list("memory", "1Gi"), r.Reserved{System: list("memory", "2Gi")})
	if m := none[v1.ResourceMemory]; !m.IsZero() {
		t.Errorf("more reserved than there is leaves %s, want 0", m.String())
	}
}
