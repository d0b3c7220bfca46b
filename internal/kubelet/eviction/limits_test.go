package eviction_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

func TestLimitsAtTheirBounds(t *testing.T) {
	unlimited := pod("1Mi")
	unlimited.Spec.Volumes[0].EmptyDir.SizeLimit = nil
	hostPath := pod("1Mi")
	hostPath.Spec.Volumes[0].VolumeSource = v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x"}}
	zero := pod("0", "0")
	used := eviction.Usage{Volumes: map[string]int64{"v": 9 * mi}}
	for _, c := range []struct {
		name     string
		pod      *v1.Pod
		use      eviction.Usage
		measured bool
		evicted  bool
	}{
		{"an emptyDir without a limit", unlimited, used, false, false},
		{"a volume of another type", hostPath, used, false, false},
		{"a limit of none is no limit", zero, eviction.Usage{Volumes: map[string]int64{"v": 1},
			Containers: map[string]int64{"a": 1}}, false, false},
		{"the smallest emptyDir", pod("1"), eviction.Usage{Volumes: map[string]int64{"v": 2}},
			true, true},
		{"the smallest emptyDir, full", pod("1"), eviction.Usage{Volumes: map[string]int64{"v": 1}},
			true, false},
		{"the smallest container", pod("", "1"), eviction.Usage{Containers: map[string]int64{"a": 2}},
			true, true},
		{"the smallest container, full", pod("", "1"), eviction.Usage{Containers: map[string]int64{"a": 1}},
			true, false},
		{"a Pod at its limit", pod("", "1Mi"), eviction.Usage{WritableLayers: mi - 1, Logs: 1},
			true, false},
		{"a Pod over it", pod("", "1Mi"), eviction.Usage{WritableLayers: mi, Logs: 1},
			true, true},
		{"containers that are not in the spec", pod("", "1Mi"),
			eviction.Usage{Containers: map[string]int64{"0": 9 * mi}},
			true, false},
		{"one after those", pod("", "1Mi"), eviction.Usage{Containers: map[string]int64{"0": mi, "a": mi + 1}},
			true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := eviction.HasStorageLimits(c.pod); got != c.measured {
				t.Errorf("measured: got %t, want %t", got, c.measured)
			}
			end, _ := eviction.LocalStorageEviction(c.pod, c.use, time.Unix(9, 0))
			if (end != nil) != c.evicted {
				t.Fatalf("got %+v, want it evicted: %t", end, c.evicted)
			}
			if end != nil && (end.Cause != "evicted" || !end.RequestedAt.Equal(time.Unix(9, 0))) {
				t.Errorf("got %+v, want Cause evicted and RequestedAt 9 s", end)
			}
		})
	}
}

func TestPartsWithoutBytesAreLeftOut(t *testing.T) {
	_, got := eviction.LocalStorageEviction(pod("", "1Mi"), eviction.Usage{WritableLayers: 2 * mi,
		Volumes: map[string]int64{"empty": 0, "one": 1}, Shared: map[string]bool{"empty": true,
			"one": true}}, time.Time{})
	want := []journal.StoragePart{{What: "writable layers", Bytes: 2 * mi}, {What: "volume", Name: "one", Bytes: 1}}
	if !slices.Equal(got.Parts, want) || got.Used != 2*mi+1 || got.Limit != mi {
		t.Errorf("got %+v, want the parts %v, used %d of %d", got, want, 2*mi+1, mi)
	}
}
