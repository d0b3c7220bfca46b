package static

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Differ says what came or changed and what went between what a source had and what it has now. Of two Pods of one name the one that was there before stays,
// else the first; the others are returned as twins. has are the manifests that count now.
func Differ(had []Manifest, found []Manifest) (d Difference) {
	before := map[types.UID]Manifest{}
	for _, m := range had {
		before[m.Pod.UID] = m
	}
	order := slices.Clone(found)
	slices.SortStableFunc(order, func(a, b Manifest) int { // what was there before comes first
		_, wasA := before[a.Pod.UID]
		_, wasB := before[b.Pod.UID]
		return cmp.Compare(btoi(wasB), btoi(wasA))
	})
	names, uids := map[types.NamespacedName]bool{}, map[types.UID]bool{}
	for _, m := range order {
		name := types.NamespacedName{Namespace: m.Pod.Namespace, Name: m.Pod.Name}
		if names[name] || uids[m.Pod.UID] {
			d.Twins = append(d.Twins, m.Pod)
			continue
		}
		names[name], uids[m.Pod.UID] = true, true
		was, known := before[m.Pod.UID]
		delete(before, m.Pod.UID)
		switch {
		case !known:
			d.Put = append(d.Put, m.Pod)
		case was.Print == m.Print:
			m = was // first seen then
		default:
			m.Pod.Annotations[SeenNote] = was.Pod.Annotations[SeenNote]
			d.Put = append(d.Put, m.Pod)
		}
		d.Has = append(d.Has, m)
	}
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		d.Gone = append(d.Gone, before[uid].Pod)
	}
	return d
}

// Difference is what Differ found.
type Difference struct {
	Put, Gone, Twins []*v1.Pod
	Has              []Manifest
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
