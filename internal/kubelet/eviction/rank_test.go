package eviction_test

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// ranked is a Pod of a fixture: memory in Mi.
type ranked struct {
	name           string
	request, limit int64 // 0: none
	use            int64
	priority       int32
}

// fixture has Pods of all classes, above and below what they request.
var fixture = []ranked{
	{"guaranteed-below", 1000, 1000, 900, 0}, {"guaranteed-above", 1000, 1000, 1001, 0},
	{"burstable-below", 2000, 0, 1950, 0}, {"burstable-above-high", 100, 0, 3000, 100},
	{"burstable-above", 100, 0, 600, 0}, {"best-effort-small", 0, 0, 10, 0}, {"best-effort-big", 0, 0, 700, 50},
	{"burstable-below-low", 2000, 0, 1000, -5},
}

func (r ranked) pod() *v1.Pod {
	p := named(r.name)
	p.Spec.Priority = &r.priority
	both := &p.Spec.Containers[0].Resources
	amount := *resource.NewQuantity(r.request*mi, resource.BinarySI)
	if r.request > 0 {
		both.Requests = v1.ResourceList{v1.ResourceMemory: amount}
	}
	if r.limit > 0 {
		both.Limits = v1.ResourceList{v1.ResourceMemory: amount, v1.ResourceCPU: resource.MustParse("1")}
		both.Requests[v1.ResourceCPU] = resource.MustParse("1")
	}
	return p
}

func orderOf(policy eviction.Ranking, list []ranked) []string {
	var pods []*v1.Pod
	use := map[types.UID]eviction.PodUse{}
	for _, r := range list {
		p := r.pod()
		pods, use[p.UID] = append(pods, p), working(r.use*mi)
	}
	var out []string
	for _, r := range eviction.Rank(policy, eviction.MemoryAvailable, eviction.Candidates{Pods: pods, Use: use}) {
		out = append(out, r.Pod.Name)
	}
	return out
}

func TestRankings(t *testing.T) {
	for _, c := range []struct {
		policy eviction.Ranking
		want   string
	}{
		// row: EVC-18
		{eviction.Upstream, "burstable-above best-effort-small guaranteed-above best-effort-big burstable-above-high " +
			"burstable-below-low burstable-below guaranteed-below"},
		{"", "burstable-above best-effort-small guaranteed-above best-effort-big burstable-above-high " +
			"burstable-below-low burstable-below guaranteed-below"},
		// row: EVC-19
		{eviction.Seed001, "best-effort-big best-effort-small burstable-above-high burstable-above burstable-below " +
			"burstable-below-low guaranteed-above guaranteed-below"},
		// row: EVC-20
		{eviction.Seed003, "best-effort-big best-effort-small burstable-above-high burstable-above guaranteed-above"},
	} {
		reversed := slices.Clone(fixture)
		slices.Reverse(reversed)
		for _, list := range [][]ranked{fixture, reversed} {
			if got := strings.Join(orderOf(c.policy, list), " "); got != c.want {
				t.Errorf("%s: got %s, want %s", c.policy, got, c.want)
			}
		}
	}
}

// row: EVC-20
func TestSeed003LeavesAloneWhatIsWithinItsRequests(t *testing.T) {
	for _, below := range []ranked{{"g", 1000, 1000, 1000, -100}, {"b", 500, 0, 500, -100}, {"c", 500, 0, 1, 0}} {
		if got := orderOf(eviction.Seed003, []ranked{below}); len(got) != 0 {
			t.Errorf("%+v: got %v, want nobody to go", below, got)
		}
		if got := orderOf(eviction.Upstream, []ranked{below}); len(got) != 1 {
			t.Errorf("%+v: got %v, want upstream to take it when nobody else is left", below, got)
		}
	}
	unknown := eviction.Candidates{Pods: []*v1.Pod{ranked{"g", 1000, 1000, 0, 0}.pod()}}
	if got := eviction.Rank(eviction.Seed003, eviction.MemoryAvailable, unknown); len(got) != 1 {
		t.Errorf("of which nothing was measured: got %v, want it among those that go", got)
	}
}

// row: EVC-22
func TestBestEffortGoesBeforeGuaranteed(t *testing.T) {
	for _, name := range eviction.Rankings() {
		got := orderOf(eviction.Ranking(name), []ranked{{"guaranteed", 5120, 5120, 5120, 0},
			{"best-effort", 0, 0, 500, 0}})
		if len(got) == 0 || got[0] != "best-effort" {
			t.Errorf("%s: got %v, want best-effort first", name, got)
		}
	}
}

// row: EVC-21
func TestCriticalPodsAreNoVictims(t *testing.T) {
	high := func(n int32) *v1.Pod { p := named("p"); p.Spec.Priority = &n; return p }
	with := func(key, value string) *v1.Pod {
		p := named("p")
		p.Annotations = map[string]string{key: value}
		return p
	}
	const old = "scheduler.alpha.kubernetes.io/critical-pod"
	for _, c := range []struct {
		name     string
		pod      *v1.Pod
		critical map[eviction.Ranking]bool
	}{
		{"system-cluster-critical", high(2_000_000_000), forAllRankings(true)},
		{"system-node-critical", high(2_000_001_000),
			forAllRankings(true)},
		{"just below", high(1_999_999_999), forAllRankings(false)},
		{"of a file", with("kubernetes.io/config.source", "file"), forAllRankings(true)},
		{"of a URL", with("kubernetes.io/config.source", "http"), forAllRankings(true)},
		{"of the API", with("kubernetes.io/config.source", "api"), forAllRankings(false)},
		{"a mirror Pod", with(v1.MirrorPodAnnotationKey, "x"), forAllRankings(true)},
		{"the old annotation", with(old, ""), map[eviction.Ranking]bool{eviction.Seed001: true}},
	} {
		for _, name := range eviction.Rankings() {
			policy := eviction.Ranking(name)
			n := newNode(t, eviction.Settings{Hard: map[string]string{"memory.available": "10Gi"}})
			n.in.Config.Ranking = policy
			n.add(c.pod, working(50*gi))
			d := n.look(0, memory(gi))
			if (d.Victim == nil) != c.critical[policy] {
				t.Errorf("%s, %s: got victim %+v, want critical: %t", c.name, policy, d.Victim, c.critical[policy])
			}
			n.add(named("other"), working(mi))
			if d := n.look(1, memory(gi)); c.critical[policy] && (d.Victim == nil || d.Victim.Pod.Name != "other") {
				t.Errorf("%s, %s: got victim %+v, want the Pod behind it", c.name, policy, d.Victim)
			}
		}
	}
}

func forAllRankings(v bool) map[eviction.Ranking]bool {
	return map[eviction.Ranking]bool{eviction.Upstream: v, eviction.Seed001: v, eviction.Seed003: v}
}

// row: EVC-24
func TestDiskPressureRanksByLocalStorage(t *testing.T) {
	dir, logs, layer, image := named("dir"), named("logs"), named("layer"), named("tmpfs")
	dir.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	image.Spec.Volumes = []v1.Volume{{Name: "v",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}}
	space := func(n int64) *eviction.Space { return &eviction.Space{Bytes: n * gi, Inodes: n} }
	use := map[types.UID]eviction.PodUse{
		"dir":   {Volumes: map[string]eviction.Space{"v": *space(5)}},
		"tmpfs": {Volumes: map[string]eviction.Space{"v": *space(50)}},
		"logs":  {Containers: []eviction.ContainerUse{{Name: "app", Logs: space(4)}}},
		"layer": {Containers: []eviction.ContainerUse{{Name: "app", Layer: space(9)}}},
	}
	for _, c := range []struct {
		disks  eviction.Disks
		signal eviction.Signal
		want   string
	}{
		{eviction.Disks{}, eviction.NodeFsAvailable, "layer dir logs tmpfs"},
		{eviction.Disks{}, eviction.NodeFsInodesFree, "layer dir logs tmpfs"},
		{eviction.Disks{}, eviction.ImageFsAvailable, "layer dir logs tmpfs"},
		{eviction.Disks{DedicatedImageFs: true}, eviction.NodeFsAvailable, "dir logs tmpfs layer"},
		{eviction.Disks{DedicatedImageFs: true}, eviction.NodeFsInodesFree, "dir logs tmpfs layer"},
		{eviction.Disks{DedicatedImageFs: true}, eviction.ImageFsAvailable, "layer tmpfs dir logs"},
		{eviction.Disks{DedicatedImageFs: true}, eviction.ContainerFsInodesFree, "layer tmpfs dir logs"},
		{eviction.Disks{DedicatedImageFs: true, SplitImageFs: true}, eviction.ContainerFsAvailable,
			"layer dir logs tmpfs"},
	} {
		var got []string
		for _, r := range eviction.Rank("", c.signal,
			eviction.Candidates{Pods: []*v1.Pod{image, dir, logs, layer}, Use: use, Disks: c.disks}) {
			got = append(got, r.Pod.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v %s: got %v, want %s", c.disks, c.signal, got, c.want)
		}
	}
	// All volumes, logs and layers of a Pod count, not only the first.
	many := named("many")
	many.Spec.Containers = append(many.Spec.Containers, v1.Container{Name: "more"})
	for _, name := range []string{"v", "w"} {
		many.Spec.Volumes = append(many.Spec.Volumes,
			v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	}
	for name, u := range map[string]eviction.PodUse{
		"volumes": {Volumes: map[string]eviction.Space{"v": *space(1), "w": *space(5)}},
		"logs": {Containers: []eviction.ContainerUse{{Name: "app", Logs: space(1)},
			{Name: "more", Logs: space(5)}}},
		"both": {Volumes: map[string]eviction.Space{"v": *space(2), "w": *space(1)},
			Containers: []eviction.ContainerUse{{Name: "app", Logs: space(2)}, {Name: "more", Logs: space(1)}}},
	} {
		use["many"] = u
		for _, signal := range []eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree} {
			got := eviction.Rank("", signal, eviction.Candidates{Pods: []*v1.Pod{dir, logs, many}, Use: use,
				Disks: eviction.Disks{DedicatedImageFs: true}})
			if got[0].Pod != many || got[1].Pod != dir || got[2].Pod != logs {
				t.Errorf("%s of many, %s: got %s, %s, %s, want many, dir, logs", name, signal, got[0].Pod.Name,
					got[1].Pod.Name, got[2].Pod.Name)
			}
		}
	}
}

// What a Pod requests is what all its containers do, sidecars with them.
//
// row: EVC-18
// row: EVC-19
// row: EVC-20
func TestRequestsOfAllContainersCount(t *testing.T) {
	request := func(m int64) v1.Container {
		return v1.Container{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceMemory: *resource.NewQuantity(m*mi, resource.BinarySI)}}}
	}
	below, above := named("below"), named("above")
	below.Spec.Containers = []v1.Container{request(100), request(500)}
	below.Spec.InitContainers = []v1.Container{request(300)}
	below.Spec.InitContainers[0].RestartPolicy = ptrTo(v1.ContainerRestartPolicyAlways)
	above.Spec.Containers = []v1.Container{request(100), request(100)}
	use := map[types.UID]eviction.PodUse{"below": working(850 * mi), "above": working(250 * mi)}
	for policy, want := range map[eviction.Ranking]string{eviction.Upstream: "above below",
		eviction.Seed001: "above below", eviction.Seed003: "above"} {
		var got []string
		for _, r := range eviction.Rank(policy, eviction.MemoryAvailable,
			eviction.Candidates{Pods: []*v1.Pod{below, above}, Use: use}) {
			got = append(got, r.Pod.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", policy, got, want)
		}
	}
	// What a Pod needs beside its containers is requested with them.
	above.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(60*mi, resource.BinarySI)}
	if got := eviction.Rank(eviction.Upstream, eviction.MemoryAvailable,
		eviction.Candidates{Pods: []*v1.Pod{above}, Use: use}); len(got) != 1 || got[0].Exceeds {
		t.Errorf("with overhead: got %+v, want a Pod within its requests", got)
	}
}

// row: EVC-25
func TestPIDPressureTakesTheLargestHolder(t *testing.T) {
	var pods []*v1.Pod
	use := map[types.UID]eviction.PodUse{}
	for name, processes := range map[string]uint64{"few": 3, "bomb": 4000, "some": 40} {
		p := named(name)
		pods, use[p.UID] = append(pods, p),
			eviction.PodUse{Processes: processes, Memory: ptrTo(int64(5000 - processes))}
	}
	var got []string
	for _, r := range eviction.Rank("", eviction.PIDAvailable, eviction.Candidates{Pods: pods, Use: use}) {
		got = append(got, r.Pod.Name)
	}
	if strings.Join(got, " ") != "bomb some few" {
		t.Errorf("got %v, want bomb, some, few", got)
	}
	low := int32(-1)
	pods = append(pods, named("low"))
	pods[3].Spec.Priority = &low
	use["low"] = eviction.PodUse{Processes: 1}
	if first := eviction.Rank("", eviction.PIDAvailable,
		eviction.Candidates{Pods: pods, Use: use})[0]; first.Pod.Name != "low" {
		t.Errorf("got %s first, want the Pod of low priority", first.Pod.Name)
	}
}
