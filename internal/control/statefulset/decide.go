package statefulset

import (
	"sort"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

// In is the input of Next: a set, the Pods it controls, and the current and the update revision of
// its template.
type In struct {
	Set             *appsv1.StatefulSet
	Pods            []*corev1.Pod
	Current, Update string
	Now             time.Time
}

// Replica is a Pod to create.
type Replica struct {
	Ordinal  int
	Revision string
}

// Plan is the outcome of Next. If it changes nothing the controller waits.
type Plan struct {
	Create         []Replica
	Recreate       []*corev1.Pod // terminated; deleted so that the name becomes free
	UpdateIdentity []*corev1.Pod // identity, storage or claims need repair
	ReleaseClaims  []*corev1.Pod // surplus: deleted for good, claims by the retention policy
	Replace        []*corev1.Pod // of another revision: deleted and recreated in the new one
}

// Next plans one step in upstream's order: first the lowest ordinal that is missing or unhealthy,
// then the highest surplus one is deleted, then the highest of another revision replaced. Parallel
// does not wait between Pods.
func Next(in In) Plan {
	var plan Plan
	if in.Set.DeletionTimestamp != nil {
		return plan
	}
	ordered := in.Set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	slots, extra := in.slotsByOrdinal()
	if wait := in.createMissing(&plan, slots, ordered); wait {
		return plan
	}
	if wait := in.scaleDown(&plan, slots, extra, ordered); wait {
		return plan
	}
	if in.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType &&
		len(plan.Create)+len(plan.Recreate) == 0 {
		plan.Replace = in.rollingUpdate(slots)
	}
	return plan
}

// slotsByOrdinal sorts the Pods into the set's slots; those outside of its range are returned
// separately, the highest ordinal first.
func (in In) slotsByOrdinal() (slots, extra []*corev1.Pod) {
	start := Start(in.Set)
	slots = make([]*corev1.Pod, replicas(in.Set))
	for _, p := range in.Pods {
		switch n := Ordinal(in.Set, p); {
		case n < 0:
		case n >= start && n < start+len(slots):
			slots[n-start] = p
		default:
			extra = append(extra, p)
		}
	}
	sort.Slice(extra, func(i, j int) bool { return Ordinal(in.Set, extra[i]) > Ordinal(in.Set, extra[j]) })
	return slots, extra
}

func (in In) createMissing(plan *Plan, slots []*corev1.Pod, ordered bool) (wait bool) {
	for i, p := range slots {
		switch {
		case p == nil:
			ordinal := Start(in.Set) + i
			plan.Create = append(plan.Create, Replica{ordinal, in.revisionFor(ordinal)})
			if ordered {
				return true
			}
			continue
		case podutil.IsTerminal(p):
			if p.DeletionTimestamp == nil {
				plan.Recreate = append(plan.Recreate, p)
			}
			wait = true
			if ordered {
				return true
			}
			continue
		}
		plan.UpdateIdentity = append(plan.UpdateIdentity, p)
		if ordered && (p.DeletionTimestamp != nil || !in.available(p)) {
			return true
		}
	}
	return wait
}

// revisionFor returns the revision of a new Pod: the current one below the partition or, without
// partition, for as many ordinals as status.currentReplicas; otherwise the update revision.
func (in In) revisionFor(ordinal int) string {
	s := in.Set.Spec.UpdateStrategy
	if s.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		below := int(in.Set.Status.CurrentReplicas)
		if s.RollingUpdate != nil && s.RollingUpdate.Partition != nil {
			below = int(*s.RollingUpdate.Partition)
		}
		if ordinal < Start(in.Set)+below {
			return in.Current
		}
	}
	return in.Update
}

// scaleDown deletes the highest ordinal. An ordered set waits until all others are healthy, unless
// the unhealthy Pod is the one to delete.
func (in In) scaleDown(plan *Plan, slots, extra []*corev1.Pod, ordered bool) (wait bool) {
	first := in.firstUnhealthy(slots, extra)
	for _, p := range extra {
		if p.DeletionTimestamp != nil {
			if ordered {
				return true
			}
			continue
		}
		if ordered && !in.available(p) && p != first {
			return true
		}
		plan.ReleaseClaims = append(plan.ReleaseClaims, p)
		if ordered {
			return true
		}
	}
	return false
}

// firstUnhealthy returns the lowest ordinal that is not running and ready.
func (in In) firstUnhealthy(slots, extra []*corev1.Pod) *corev1.Pod {
	var first *corev1.Pod
	for _, group := range [][]*corev1.Pod{slots, extra} {
		for _, p := range group {
			if p != nil && !healthy(p) && (first == nil || Ordinal(in.Set, p) < Ordinal(in.Set, first)) {
				first = p
			}
		}
	}
	return first
}

// rollingUpdate deletes Pods of another revision from the highest ordinal down to the partition, at
// most as many at once as may be unavailable.
func (in In) rollingUpdate(slots []*corev1.Pod) []*corev1.Pod {
	partition, most := 0, in.maxUnavailable(len(slots))
	if r := in.Set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		partition = int(*r.Partition)
	}
	var out []*corev1.Pod
	deleted := 0
	if most > 1 {
		deleted = in.unavailable(slots)
	}
	for i := len(slots) - 1; i >= partition && i >= 0; i-- {
		p := slots[i]
		if p == nil {
			break
		}
		old := Revision(p) != in.Update && p.DeletionTimestamp == nil
		if most == 1 {
			if old {
				return []*corev1.Pod{p}
			}
			if !healthy(p) || !in.available(p) {
				return nil
			}
			continue
		}
		switch {
		case !old:
		case !healthy(p):
			out = append(out, p) // it is unavailable already
		case deleted < most:
			out, deleted = append(out, p), deleted+1
		}
	}
	return out
}

// maxUnavailable is how many Pods of as many a rolling update may have unavailable.
func (in In) maxUnavailable(of int) int {
	if r := in.Set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, of, false); err == nil {
			return max(n, 1)
		}
	}
	return 1
}

// unavailable counts the slots whose Pod is missing or not available.
func (in In) unavailable(slots []*corev1.Pod) int {
	n := 0
	for _, p := range slots {
		if p == nil || !healthy(p) || !in.available(p) {
			n++
		}
	}
	return n
}

// Status returns the set's status, and the time until a ready Pod becomes available.
func Status(in In, collisions int32) (appsv1.StatefulSetStatus, time.Duration) {
	s := *in.Set.Status.DeepCopy()
	s.ObservedGeneration, s.CurrentRevision, s.UpdateRevision, s.CollisionCount = in.Set.Generation, in.Current,
		in.Update, &collisions
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas = 0, 0, 0, 0, 0
	var again time.Duration
	for _, p := range in.Pods {
		s.Replicas++
		if isRunningAndReady(p) {
			s.ReadyReplicas++
			if left := in.untilAvailable(p); left <= 0 {
				s.AvailableReplicas++
			} else if again == 0 || left < again {
				again = left
			}
		}
		if p.DeletionTimestamp != nil {
			continue
		}
		if Revision(p) == in.Current {
			s.CurrentReplicas++
		}
		if Revision(p) == in.Update {
			s.UpdatedReplicas++
		}
	}
	rolling := in.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType
	if rolling && s.UpdatedReplicas == s.Replicas && s.ReadyReplicas == s.Replicas && s.Replicas == replicas(in.Set) {
		s.CurrentReplicas, s.CurrentRevision = s.UpdatedReplicas, s.UpdateRevision
	}
	return s, again
}

func replicas(s *appsv1.StatefulSet) int32 {
	if s.Spec.Replicas == nil {
		return 1
	}
	return *s.Spec.Replicas
}

// Start returns the first ordinal.
func Start(s *appsv1.StatefulSet) int {
	if s.Spec.Ordinals == nil {
		return 0
	}
	return int(s.Spec.Ordinals.Start)
}

// Ordinal returns the number at the end of the Pod's name; -1 if the name is not the set's.
func Ordinal(s *appsv1.StatefulSet, p *corev1.Pod) int {
	n, ok := strings.CutPrefix(p.Name, s.Name+"-")
	if !ok {
		return -1
	}
	i, err := strconv.Atoi(n)
	if err != nil || i < 0 || strconv.Itoa(i) != n {
		return -1
	}
	return i
}

// Revision returns the name of the revision that a Pod was created from.
func Revision(p *corev1.Pod) string { return p.Labels[appsv1.StatefulSetRevisionLabel] }

func isRunningAndReady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && podutil.IsReady(p)
}

func healthy(p *corev1.Pod) bool { return isRunningAndReady(p) && p.DeletionTimestamp == nil }

func (in In) available(p *corev1.Pod) bool { return isRunningAndReady(p) && in.untilAvailable(p) <= 0 }

// untilAvailable is the time until a ready Pod becomes available; at most 0 for any other.
func (in In) untilAvailable(p *corev1.Pod) time.Duration {
	if !podutil.IsReady(p) || in.Set.Spec.MinReadySeconds == 0 {
		return 0
	}
	return podutil.UntilAvailable(p, in.Set.Spec.MinReadySeconds, in.Now)
}
