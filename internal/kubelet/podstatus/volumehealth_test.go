package podstatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// As upstream's status manager: no entry for a volume that was always well, an entry without
// conditions for one that is well again, the time of the last change of status and reason.
func TestVolumeHealthInTheStatus(t *testing.T) {
	before, now := time.Unix(100, 0), time.Unix(200, 0)
	bad := func(why, text string) []v1.VolumeHealthCondition {
		return []v1.VolumeHealthCondition{{Status: v1.VolumeHealthDataLoss, Reason: why, Message: text}}
	}
	entry := func(name string, c []v1.VolumeHealthCondition, at time.Time) v1.PodVolumeHealth {
		return v1.PodVolumeHealth{Name: name, HealthConditions: c, LastTransitionTime: metav1.NewTime(at).Rfc3339Copy()}
	}
	old := []v1.PodVolumeHealth{entry("b", bad("A", "first"), before)}
	for name, c := range map[string]struct {
		list  []v1.PodVolumeHealth
		known map[string][]v1.VolumeHealthCondition
		want  []v1.PodVolumeHealth
	}{
		"nobody was asked": {old, nil, old},
		"well":             {nil, map[string][]v1.VolumeHealthCondition{"a": nil}, nil},
		"the same":         {old, map[string][]v1.VolumeHealthCondition{"b": bad("A", "other words")}, old},
		"well again": {old, map[string][]v1.VolumeHealthCondition{"b": nil},
			[]v1.PodVolumeHealth{entry("b", nil, now)}},
		"another reason": {old, map[string][]v1.VolumeHealthCondition{"b": bad("B", "")},
			[]v1.PodVolumeHealth{entry("b", bad("B", ""), now)}},
		"another volume": {old, map[string][]v1.VolumeHealthCondition{"a": bad("C", "")},
			append(old[:1:1], entry("a", bad("C", ""), now))},
		"first bad, in order": {nil, map[string][]v1.VolumeHealthCondition{"d": bad("A", ""), "c": bad("A", "")},
			[]v1.PodVolumeHealth{entry("c", bad("A", ""), now), entry("d", bad("A", ""), now)}},
	} {
		if got := withVolumeHealth(c.list, c.known, now); !cmp.Equal(got, c.want) {
			t.Errorf("%s: got otherwise than want:\n%s", name, cmp.Diff(c.want, got))
		}
	}
	if !cmp.Equal(old, []v1.PodVolumeHealth{entry("b", bad("A", "first"), before)}) {
		t.Errorf("the list that was given is changed: %v", old)
	}
	p := &v1.Pod{Status: v1.PodStatus{VolumeHealth: old}}
	got := Generate(In{Pod: p, Now: now, VolumeHealth: map[string][]v1.VolumeHealthCondition{"b": nil}})
	if want := []v1.PodVolumeHealth{entry("b", nil, now)}; !cmp.Equal(got.VolumeHealth, want) {
		t.Errorf("the status: %s", cmp.Diff(want, got.VolumeHealth))
	}
}
