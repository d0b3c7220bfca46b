package noderole

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/linux/proc"
)

// row: EVC-18
// row: EVC-19
// row: EVC-20
func TestRankingOfEvictions(t *testing.T) {
	for _, c := range []struct {
		flag, preset string
		want         eviction.Ranking
	}{
		{"", "", eviction.Upstream}, {"", "seed-000", eviction.Upstream}, {"", "seed-001", eviction.Seed001},
		{"seed-003", "", eviction.Seed003}, {"upstream", "seed-001", eviction.Upstream},
	} {
		n := &KubeletOptions{ranking: c.flag, ConfigSources: kubeconfig.Sources{Preset: c.preset}}
		if got, err := n.evictionRanking(); got != c.want || err != nil {
			t.Errorf("flag %q, preset %q: got %q, %v, want %q", c.flag, c.preset, got, err, c.want)
		}
	}
	_, err := (&KubeletOptions{ranking: "oldest"}).evictionRanking()
	if err == nil || !strings.Contains(err.Error(),
		`--eviction-ranking: there is no eviction ranking "oldest"; there are upstream, seed-001, seed-003`) {
		t.Errorf("got %v, want the flag named and what there is", err)
	}
}

// What is set aside as huge pages is no memory that processes may have, unless the gate is off.
//
// row: EVC-13
func TestHugePagesAreNotAvailableMemory(t *testing.T) {
	huge := map[string]int64{"2Mi": 1 << 30, "1Gi": 2 << 30}
	for _, c := range []struct {
		what string
		huge map[string]int64
		gate map[string]bool
		want int64
	}{
		{"no huge pages", map[string]int64{"2Mi": 0}, nil, 8 << 30},
		{"two sizes", huge, nil, 5 << 30},
		{"more than there is", map[string]int64{"1Gi": 9 << 30}, nil, 0},
		{"gate off", huge, map[string]bool{"HugepageAwareEviction": false}, 8 << 30},
	} {
		n := &Role{config: &kubeletconfig.KubeletConfiguration{FeatureGates: c.gate}}
		if got := n.evictionMemory(proc.Machine{MemoryBytes: 8 << 30, HugePages: c.huge}); got != c.want {
			t.Errorf("%s: got %d bytes to count memory.available from, want %d", c.what, got, c.want)
		}
	}
}

// row: EVC-10
// row: EVC-20
func TestConfigurationOfEvictions(t *testing.T) {
	n := &Role{eviction: evictionOptions{ranking: eviction.Seed003}, config: &kubeletconfig.KubeletConfiguration{
		EvictionHard: map[string]string{"memory.available": "200Mi"}, EvictionMaxPodGracePeriod: 60,
		EvictionPressureTransitionPeriod: v1.Duration{Duration: time.Minute}, EnforceNodeAllocatable: []string{"pods"}}}
	c, err := n.evictionConfig()
	if err != nil || len(c.Thresholds) != 2 || c.MaxPodGrace != time.Minute || c.PressureTransition != time.Minute ||
		c.Ranking != eviction.Seed003 || c.FruitlessEvictions == 0 || c.FruitlessHoldPeriod == 0 {
		t.Errorf("got %+v, %v, want the configuration's thresholds, 60 s, 1m, seed-003 and an end of what is in "+
			"vain", c,
			err)
	}
	n.config.EvictionHard["nodefs.available"] = "10%"
	for _, byDefault := range []bool{true, false} {
		n.eviction.defaultHard = byDefault
		c, err := n.evictionConfig()
		want := int64(10 << 30)
		if byDefault {
			want = eviction.DefaultDiskCap
		}
		i := slices.IndexFunc(c.Thresholds,
			func(t eviction.Threshold) bool { return t.Signal == eviction.NodeFsAvailable })
		if err != nil || i < 0 {
			t.Fatalf("got %+v, %v, want a threshold of nodefs.available", c, err)
		}
		if q := c.Thresholds[i].Value.Of(100 << 30); q.Value()/1000 != want/1000 {
			t.Errorf("set by nobody %v: got %d of 100 GiB to stay free, want %d", byDefault, q.Value(), want)
		}
	}
	n.config.EvictionHard["memory.available"] = "lots"
	if _, err := n.evictionConfig(); err == nil || !strings.Contains(err.Error(), "evictionHard") {
		t.Errorf("got %v, want evictionHard named", err)
	}
}

// What the configuration keeps of a node's capacity from Pods: both reservations, and what hard
// eviction thresholds keep.
//
// row: QOS-13
func TestAllocatableOfTheConfiguration(t *testing.T) {
	list := func(cpu, memory, disk string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory:           resource.MustParse(memory),
			corev1.ResourceEphemeralStorage: resource.MustParse(disk)}
	}
	system := map[string]string{"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "2Gi"}
	kube := map[string]string{"cpu": "250m", "memory": "512Mi", "ephemeral-storage": "1Gi"}
	hard := map[string]string{"memory.available": "25%", "nodefs.available": "10Gi", "imagefs.available": "15Gi",
		"pid.available": "5%"}
	for name, c := range map[string]struct {
		config kubeletconfig.KubeletConfiguration
		want   corev1.ResourceList
	}{
		"nothing":        {kubeletconfig.KubeletConfiguration{}, list("4", "8Gi", "100Gi")},
		"systemReserved": {kubeletconfig.KubeletConfiguration{SystemReserved: system}, list("3500m", "7Gi", "98Gi")},
		"kubeReserved":   {kubeletconfig.KubeletConfiguration{KubeReserved: kube}, list("3750m", "7680Mi", "99Gi")},
		"evictionHard":   {kubeletconfig.KubeletConfiguration{EvictionHard: hard}, list("4", "6Gi", "90Gi")},
		"evictionSoft":   {kubeletconfig.KubeletConfiguration{EvictionSoft: hard}, list("4", "8Gi", "100Gi")},
		"all of them": {kubeletconfig.KubeletConfiguration{SystemReserved: system, KubeReserved: kube,
			EvictionHard: hard}, list("3250m", "4608Mi", "87Gi")},
	} {
		got := (&Role{config: &c.config}).allocatable()(list("4", "8Gi", "100Gi"))
		for what, want := range c.want {
			if q := got[what]; q.Cmp(want) != 0 {
				t.Errorf("%s: allocatable %s is %s, want %s", name, what, &q, &want)
			}
		}
	}
}
