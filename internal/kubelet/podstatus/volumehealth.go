package podstatus

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withVolumeHealth lays what drivers say of volumes into status.volumeHealth, as upstream: a volume
// that has always been well has no entry, one that is well again keeps its entry, without
// conditions; what nobody was asked about stays as it is.
func withVolumeHealth(list []v1.PodVolumeHealth, known map[string][]v1.VolumeHealthCondition,
	now time.Time) []v1.PodVolumeHealth {
	out := slices.Clone(list)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		i := slices.IndexFunc(out, func(h v1.PodVolumeHealth) bool { return h.Name == name })
		var old []v1.VolumeHealthCondition
		if i >= 0 {
			old = out[i].HealthConditions
		}
		if SameHealth(old, known[name]) {
			continue
		}
		h := v1.PodVolumeHealth{Name: name, HealthConditions: slices.Clone(known[name]),
			LastTransitionTime: metav1.NewTime(now).Rfc3339Copy()}
		if i < 0 {
			out = append(out, h)
		} else {
			out[i] = h
		}
	}
	return out
}

// SameHealth tells whether two reports have the same pairs of status and reason.
func SameHealth(a, b []v1.VolumeHealthCondition) bool {
	pairs := func(list []v1.VolumeHealthCondition) map[v1.VolumeHealthCondition]bool {
		out := map[v1.VolumeHealthCondition]bool{}
		for _, c := range list {
			out[v1.VolumeHealthCondition{Status: c.Status, Reason: c.Reason}] = true
		}
		return out
	}
	return maps.Equal(pairs(a), pairs(b))
}
