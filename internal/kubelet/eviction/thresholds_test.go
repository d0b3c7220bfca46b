package eviction_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/eviction"
)

// thresholds reads settings that are right.
func thresholds(t *testing.T, s eviction.Settings) []eviction.Threshold {
	t.Helper()
	list, errs := eviction.Thresholds(s)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return list
}

// row: EVC-12
func TestThresholdIsAQuantityOrAShareOfCapacity(t *testing.T) {
	const capacity = 4 << 30
	for text, want := range map[string]string{"100Mi": "100Mi", "10%": "429496736", "1G": "1G", "0.5%": "21474836",
		"12.5%": "512Mi"} {
		list := thresholds(t, eviction.Settings{Hard: map[string]string{"memory.available": text}})
		got := list[0].Value.Of(capacity)
		if got.String() != want {
			t.Errorf("%s of 4Gi: got %s, want %s", text, &got, want)
		}
	}
	for _, text := range []string{"0%", "100%"} {
		if list := thresholds(t, eviction.Settings{Hard: map[string]string{"memory.available": text}}); len(list) > 0 {
			t.Errorf("%s: got %v, want no threshold", text, list)
		}
	}
}

// row: EVC-08
func TestSoftThresholdNeedsAGracePeriod(t *testing.T) {
	soft := map[string]string{"memory.available": "500Mi", "nodefs.available": "15%"}
	_, errs := eviction.Thresholds(eviction.Settings{Soft: soft,
		SoftGracePeriod: map[string]string{"memory.available": "1m30s"}})
	const want = "evictionSoft: grace period must be specified for the soft eviction threshold nodefs.available"
	if len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got %v, want %q alone", errs, want)
	}
	list := thresholds(t, eviction.Settings{Soft: soft,
		SoftGracePeriod: map[string]string{"memory.available": "1m30s", "nodefs.available": "2m"}})
	if len(list) != 2 || list[0].Grace != 90*time.Second || list[1].Grace != 2*time.Minute || list[0].Hard() {
		t.Errorf("got %+v, want graces of 1m30s and 2m, none hard", list)
	}
}

func TestSettingsNameTheField(t *testing.T) {
	_, errs := eviction.Thresholds(eviction.Settings{
		Hard:            map[string]string{"memory.available": "-1", "disk": "1", "pid.available": "NaN%"},
		Soft:            map[string]string{"imagefs.available": "x"},
		SoftGracePeriod: map[string]string{"imagefs.available": "soon"},
		MinimumReclaim:  map[string]string{"nodefs.available": "-1Gi"}})
	var got []string
	for _, err := range errs {
		field, _, _ := strings.Cut(err.Error(), ":")
		got = append(got, field)
	}
	want := []string{"evictionHard", "evictionHard", "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
		"evictionMinimumReclaim"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v of %v, want %v", got, errs, want)
	}
}

func TestThresholdsOfThePodsCgroup(t *testing.T) {
	s := eviction.Settings{Hard: map[string]string{"memory.available": "100Mi", "pid.available": "5%"},
		Soft:            map[string]string{"memory.available": "1Gi"},
		SoftGracePeriod: map[string]string{"memory.available": "1m"},
		MinimumReclaim:  map[string]string{"memory.available": "50Mi"}}
	if list := thresholds(t, s); len(list) != 3 {
		t.Errorf("not enforced: got %v, want the three that are set", list)
	}
	s.EnforcePods = true
	list := thresholds(t, s)
	last := list[len(list)-1]
	if len(list) != 4 || last.Signal != eviction.AllocatableMemoryAvailable || last.Value.String() != "100Mi" ||
		!last.Hard() || last.MinReclaim.String() != "50Mi" {
		t.Errorf("enforced: got %v, want the hard one of memory for allocatableMemory.available too", list)
	}
}

func TestThresholdsOfContainerFs(t *testing.T) {
	list := thresholds(t,
		eviction.Settings{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "15%",
			"containerfs.available": "1%", "imagefs.inodesFree": "5%"}})
	for _, c := range []struct {
		disks   eviction.Disks
		want    string
		ignored int
	}{
		{eviction.Disks{}, "containerfs.available 10%", 1},
		{eviction.Disks{DedicatedImageFs: true}, "containerfs.available 15% containerfs.inodesFree 5%", 1},
		{eviction.Disks{DedicatedImageFs: true, SplitImageFs: true}, "containerfs.available 10%", 1},
		{eviction.Disks{SplitImageFs: true}, "containerfs.available 1%", 1},
	} {
		var got []string
		out, ignored := eviction.ForDisks(list, c.disks)
		for _, x := range out {
			if strings.HasPrefix(string(x.Signal), "containerfs") {
				got = append(got, fmt.Sprint(x.Signal, " ", x.Value))
			}
		}
		if strings.Join(got, " ") != c.want || len(ignored) != c.ignored {
			t.Errorf("%+v: got %v, ignored %v, want %s, ignored %d", c.disks, got, ignored, c.want, c.ignored)
		}
	}
}

// TestDefaultThresholdsOfDisksAreCapped: of a big disk a default threshold keeps a gibibyte free,
// of a small one its share; what else there is of thresholds stays.
//
// row: EVC-03, EVC-05
func TestDefaultThresholdsOfDisksAreCapped(t *testing.T) {
	const gib = int64(1) << 30
	list, errs := eviction.Thresholds(eviction.Settings{
		Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "15%", "nodefs.inodesFree": "5%",
			"memory.available": "50%", "containerfs.available": "3Gi"},
		Soft:            map[string]string{"nodefs.available": "20%"},
		SoftGracePeriod: map[string]string{"nodefs.available": "1m"}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	type key struct {
		signal eviction.Signal
		hard   bool
	}
	want := map[key][2]int64{ // of a capacity of 4 GiB, of 400 GiB
		{eviction.NodeFsAvailable, true}:      {gib * 4 / 10, gib},
		{eviction.ImageFsAvailable, true}:     {gib * 4 * 15 / 100, gib},
		{eviction.NodeFsInodesFree, true}:     {gib * 4 / 20, gib * 20},
		{eviction.MemoryAvailable, true}:      {gib * 2, gib * 200},
		{eviction.ContainerFsAvailable, true}: {gib * 3, gib * 3},
		{eviction.NodeFsAvailable, false}:     {gib * 4 / 5, gib * 80},
	}
	capped := eviction.CapDisks(list, eviction.DefaultDiskCap)
	if len(capped) != len(want) {
		t.Errorf("got %d thresholds, want %d", len(capped), len(want))
	}
	for _, c := range capped {
		for i, capacity := range []int64{4 * gib, 400 * gib} {
			q := c.Value.Of(capacity)
			w := want[key{c.Signal, c.Hard()}][i]
			if d := q.Value() - w; max(d, -d) > w/1_000_000 { // shares are float32, as upstream's
				t.Errorf("%s of %d, hard %v: got %d, want %d", c.Signal, capacity, c.Hard(), q.Value(), w)
			}
		}
	}
}
