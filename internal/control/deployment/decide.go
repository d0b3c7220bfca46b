package deployment

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sort"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Annotations that upstream's tools read.
const (
	revisionKey = "deployment.kubernetes.io/revision"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maxKey      = "deployment.kubernetes.io/max-replicas"
)

// In is the input of Next: a Deployment and the ReplicaSets it controls.
type In struct {
	Deployment *appsv1.Deployment
	Sets       []*appsv1.ReplicaSet
	OldPods    bool // Pods of earlier revisions exist; Recreate waits for them
	Now        time.Time
}

// Scale is a new size of a ReplicaSet.
type Scale struct {
	Set *appsv1.ReplicaSet
	To  int32
}

// Plan is the outcome of Next, in order.
type Plan struct {
	Create   bool  // create the ReplicaSet of the current template, with Size
	Size     int32 // its initial size
	Scale    []Scale
	Annotate []*appsv1.ReplicaSet // sets of unchanged size with outdated size annotations
	Delete   []*appsv1.ReplicaSet // history beyond the limit
}

// Next plans one step of a rollout, a scaling or a clean-up, by upstream's rules.
func Next(in In) Plan {
	d := in.Deployment
	cur, old := FindReplicaSets(in)
	if d.DeletionTimestamp != nil {
		return Plan{}
	}
	if d.Spec.Paused {
		return Plan{Scale: reconcileOldReplicaSets(d, cur, old), Delete: revisionsToDelete(d, old)}
	}
	if scaled(d, cur, old) {
		return Plan{Scale: reconcileOldReplicaSets(d, cur, old), Annotate: staleAnnotations(d, cur, old)}
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return recreate(in, cur, old)
	}
	return rollout(d, cur, old)
}

// FindReplicaSets returns the ReplicaSet of the current template, nil if there is none, and the
// others, oldest first.
func FindReplicaSets(in In) (*appsv1.ReplicaSet, []*appsv1.ReplicaSet) {
	sets := append([]*appsv1.ReplicaSet(nil), in.Sets...)
	sort.Slice(sets, func(i, j int) bool {
		if a, b := sets[i].CreationTimestamp, sets[j].CreationTimestamp; !a.Equal(&b) {
			return a.Before(&b)
		}
		return sets[i].Name < sets[j].Name
	})
	var cur *appsv1.ReplicaSet
	var old []*appsv1.ReplicaSet
	for _, rs := range sets {
		if cur == nil && sameTemplate(&in.Deployment.Spec.Template, &rs.Spec.Template) {
			cur = rs
			continue
		}
		old = append(old, rs)
	}
	return cur, old
}

// sameTemplate compares templates without the hash label that the controller adds.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	delete(x.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(y.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return equality.Semantic.DeepEqual(x, y)
}

// PodTemplateHash returns the hash of a template; collisions is raised if another template has the
// hash already.
func PodTemplateHash(t *corev1.PodTemplateSpec, collisions *int32) string {
	h := fnv.New32a()
	if err := json.NewEncoder(h).Encode(t); err != nil {
		return "invalid" // a template decoded from JSON can always be encoded
	}
	if collisions != nil {
		fmt.Fprintf(h, "/%d", *collisions)
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

func size(rs *appsv1.ReplicaSet) int32 {
	if rs == nil || rs.Spec.Replicas == nil {
		return 0
	}
	return *rs.Spec.Replicas
}

func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func sum(sets []*appsv1.ReplicaSet, of func(*appsv1.ReplicaSet) int32) int32 {
	var n int32
	for _, rs := range sets {
		if rs != nil {
			n += of(rs)
		}
	}
	return n
}

func available(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

// Limits returns maxSurge and maxUnavailable as numbers; never both zero.
func Limits(d *appsv1.Deployment) (surge, unavailable int32) {
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || d.Spec.Strategy.RollingUpdate == nil ||
		replicasOf(d) == 0 {
		return 0, 0
	}
	r := d.Spec.Strategy.RollingUpdate
	s, _ := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(r.MaxSurge, intstr.FromInt32(0)),
		int(replicasOf(d)), true)
	u, _ := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(r.MaxUnavailable, intstr.FromInt32(0)),
		int(replicasOf(d)), false)
	if s == 0 && u == 0 {
		u = 1
	}
	return int32(s), min(int32(u), replicasOf(d))
}

func activeReplicaSets(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, rs := range sets {
		if rs != nil && size(rs) > 0 {
			out = append(out, rs)
		}
	}
	return out
}

// scaled reports whether the wanted size changed since the sets were last sized: they are then
// resized in proportion before a rollout continues.
func scaled(d *appsv1.Deployment, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) bool {
	return len(staleAnnotations(d, cur, old)) > 0
}

func staleAnnotations(d *appsv1.Deployment, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var out []*appsv1.ReplicaSet
	for _, rs := range activeReplicaSets(append([]*appsv1.ReplicaSet{cur}, old...)) {
		if note, ok := rs.Annotations[desiredKey]; ok && note != strconv.Itoa(int(replicasOf(d))) {
			out = append(out, rs)
		}
	}
	return out
}

// reconcileOldReplicaSets distributes a changed size: to the only set, else in proportion to the
// sets' sizes, larger and newer ones first.
func reconcileOldReplicaSets(d *appsv1.Deployment, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []Scale {
	all := append(append([]*appsv1.ReplicaSet{}, old...), cur)
	live := activeReplicaSets(all)
	switch {
	case len(live) == 0 && cur != nil:
		return change(nil, cur, replicasOf(d))
	case len(live) == 0 && len(old) > 0:
		return change(nil, old[len(old)-1], replicasOf(d))
	case len(live) == 1:
		return change(nil, live[0], replicasOf(d))
	}
	if cur != nil && size(cur) == replicasOf(d) && available(cur) == replicasOf(d) {
		var out []Scale
		for _, rs := range old {
			out = change(out, rs, 0)
		}
		return out
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return scaleProportionally(d, live)
}

func change(out []Scale, rs *appsv1.ReplicaSet, to int32) []Scale {
	if size(rs) == to {
		return out
	}
	return append(out, Scale{rs, to})
}

func scaleProportionally(d *appsv1.Deployment, live []*appsv1.ReplicaSet) []Scale {
	surge, _ := Limits(d)
	allowed := int32(0)
	if replicasOf(d) > 0 {
		allowed = replicasOf(d) + surge
	}
	add := allowed - sum(live, size)
	scalesUp := add > 0
	sort.SliceStable(live, func(i, j int) bool {
		if a, b := size(live[i]), size(live[j]); a != b {
			return a > b
		}
		return live[i].CreationTimestamp.Before(&live[j].CreationTimestamp) != scalesUp
	})
	to := make([]int32, len(live))
	left := add
	for i, rs := range live {
		to[i] = size(rs)
		if add == 0 {
			continue
		}
		was := replicasOf(d)
		if n, err := strconv.Atoi(rs.Annotations[maxKey]); err == nil && n > 0 {
			was = int32(n)
		}
		share := int32(float64(size(rs))*float64(allowed)/float64(was)+0.5) - size(rs)
		if scalesUp {
			share = max(0, min(share, left))
		} else {
			share = min(0, max(share, left))
		}
		to[i] += share
		left -= share
	}
	var out []Scale
	for i, rs := range live {
		if i == 0 {
			to[i] = max(0, to[i]+left)
		}
		out = change(out, rs, to[i])
	}
	return out
}

func recreate(in In, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) Plan {
	var p Plan
	for _, rs := range old {
		p.Scale = change(p.Scale, rs, 0)
	}
	if len(p.Scale) > 0 || in.OldPods {
		return p
	}
	if cur == nil {
		return Plan{Create: true, Size: replicasOf(in.Deployment)}
	}
	p.Scale = change(nil, cur, replicasOf(in.Deployment))
	p.Delete = rolloutComplete(in.Deployment, cur, old)
	return p
}

func rollout(d *appsv1.Deployment, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) Plan {
	if cur == nil {
		return Plan{Create: true, Size: scaleUpLimit(d, 0, sum(old, size))}
	}
	if to := scaleUpLimit(d, size(cur), sum(old, size)); to != size(cur) {
		return Plan{Scale: []Scale{{cur, to}}}
	}
	if steps := scaleDownOldReplicaSets(d, cur, old); len(steps) > 0 {
		return Plan{Scale: steps}
	}
	return Plan{Delete: rolloutComplete(d, cur, old)}
}

// scaleUpLimit returns the size of the new set: the wanted one, within wanted plus surge for all
// sets together.
func scaleUpLimit(d *appsv1.Deployment, now, others int32) int32 {
	if now >= replicasOf(d) {
		return replicasOf(d)
	}
	surge, _ := Limits(d)
	room := replicasOf(d) + surge - now - others
	if room <= 0 {
		return now
	}
	return now + min(room, replicasOf(d)-now)
}

// scaleDownOldReplicaSets scales old sets down: first unavailable Pods, then as many as
// availability allows.
func scaleDownOldReplicaSets(d *appsv1.Deployment, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []Scale {
	_, unavailable := Limits(d)
	floor := replicasOf(d) - unavailable
	room := sum(old, size) + size(cur) - floor - (size(cur) - available(cur))
	if sum(old, size) == 0 || room <= 0 {
		return nil
	}
	to := map[*appsv1.ReplicaSet]int32{}
	for _, rs := range old {
		to[rs] = size(rs)
		if unhealthy := min(room, size(rs)-available(rs)); unhealthy > 0 {
			to[rs] -= unhealthy
			room -= unhealthy
		}
	}
	surplus := sum(old, available) + available(cur) - floor
	for _, rs := range old {
		if n := min(surplus, to[rs]); n > 0 {
			to[rs] -= n
			surplus -= n
		}
	}
	var out []Scale
	for _, rs := range old {
		out = change(out, rs, to[rs])
	}
	return out
}

// Complete reports whether the rollout is complete: all Pods are updated and available, and no old
// one is left.
func Complete(d *appsv1.Deployment, s appsv1.DeploymentStatus) bool {
	return s.UpdatedReplicas == replicasOf(d) && s.Replicas == replicasOf(d) && s.AvailableReplicas == replicasOf(d) &&
		s.ObservedGeneration >= d.Generation
}

func rolloutComplete(d *appsv1.Deployment, cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if available(cur) < replicasOf(d) {
		return nil
	}
	return revisionsToDelete(d, old)
}

// revisionsToDelete returns the oldest empty sets beyond the limit.
func revisionsToDelete(d *appsv1.Deployment, old []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	if d.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	var empty []*appsv1.ReplicaSet
	for _, rs := range old {
		if rs.DeletionTimestamp == nil && size(rs) == 0 && rs.Status.Replicas == 0 &&
			rs.Generation <= rs.Status.ObservedGeneration {
			empty = append(empty, rs)
		}
	}
	sort.SliceStable(empty, func(i, j int) bool { return Revision(empty[i]) < Revision(empty[j]) })
	if over := len(empty) - int(*d.Spec.RevisionHistoryLimit); over > 0 {
		return empty[:over]
	}
	return nil
}

// Revision returns the revision under which a set's template was last rolled out.
func Revision(rs *appsv1.ReplicaSet) int64 {
	n, _ := strconv.ParseInt(rs.Annotations[revisionKey], 10, 64)
	return n
}

// NextRevision returns the revision of the current set: one above all others, or its own if that is
// the highest already.
func NextRevision(cur *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) int64 {
	var most int64
	for _, rs := range old {
		most = max(most, Revision(rs))
	}
	if cur != nil && Revision(cur) > most {
		return Revision(cur)
	}
	return most + 1
}
