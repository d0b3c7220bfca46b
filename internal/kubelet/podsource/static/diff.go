package static

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Diff says what came or changed and what went between what a source had and what it has now. Of
// two Pods of one name the one that was there before stays, else the first; the others are returned
// as duplicates. has are the manifests that count now.
func Diff(had []Manifest, found []Manifest) (d Difference) {
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
			d.Duplicates = append(d.Duplicates, m.Pod)
			continue
		}
		names[name], uids[m.Pod.UID] = true, true
		was, known := before[m.Pod.UID]
		delete(before, m.Pod.UID)
		switch {
		case !known:
			d.Updated = append(d.Updated, m.Pod)
		case was.Hash == m.Hash:
			m = was // first seen then
		default:
			m.Pod.Annotations[SeenAnnotation] = was.Pod.Annotations[SeenAnnotation]
			d.Updated = append(d.Updated, m.Pod)
		}
		d.Current = append(d.Current, m)
	}
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		d.Removed = append(d.Removed, before[uid].Pod)
	}
	return d
}

// Difference is what Diff found.
type Difference struct {
	Updated, Removed, Duplicates []*v1.Pod
	Current                      []Manifest
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
