package job

import (
	"slices"
	"sort"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// manage compares the active Pods with parallelism and completions.
func (t *syncJobContext) manage() ([]PodToCreate, []*corev1.Pod, time.Duration) {
	parallel := 1
	if t.Job.Spec.Parallelism != nil {
		parallel = int(*t.Job.Spec.Parallelism)
	}
	wanted := parallel
	if t.Job.Spec.Completions != nil {
		wanted = min(parallel, completions(t.Job)-int(t.succeeded))
	} else if t.succeeded > 0 {
		wanted = min(parallel, len(t.active))
	}
	wanted = max(0, wanted)
	if surplus := len(t.active) - wanted; surplus > 0 {
		return nil, activePodsForRemoval(t.active)[:surplus], 0
	}
	missing := wanted - len(t.active)
	if replacesFailedOnly(t.Job) {
		missing -= len(t.terminating)
	}
	if missing <= 0 {
		return nil, nil, 0
	}
	if wait := t.backoff(); wait > 0 && !indexedLimits(t.Job) {
		return nil, nil, wait
	}
	missing = min(missing, burst)
	if indexed(t.Job) {
		podsToCreate, again := t.podsToCreate(missing)
		return podsToCreate, nil, again
	}
	return slices.Repeat([]PodToCreate{{Index: -1}}, missing), nil, 0
}

func indexedLimits(j *batchv1.Job) bool { return j.Spec.BackoffLimitPerIndex != nil }

// podsToCreate picks the lowest indexes that are neither succeeded, failed nor active.
func (t *syncJobContext) podsToCreate(n int) ([]PodToCreate, time.Duration) {
	taken := map[int]bool{}
	for _, p := range t.active {
		taken[indexOf(p)] = true
	}
	if replacesFailedOnly(t.Job) || indexedLimits(t.Job) {
		for _, p := range t.terminating {
			taken[indexOf(p)] = true
		}
	}
	failures, last := map[int]int{}, map[int]time.Time{}
	for _, p := range t.finished {
		if i := indexOf(p); p.Status.Phase == corev1.PodFailed &&
			podFailureAction(t.Job, p) != batchv1.PodFailurePolicyActionIgnore {
			failures[i] = max(failures[i], failuresOf(p)+1)
			last[i] = laterOf(last[i], podFinishTime(p))
		}
	}
	var out []PodToCreate
	var again time.Duration
	for i := 0; i < completions(t.Job) && len(out) < n; i++ {
		if taken[i] || t.succeededIndexes[i] || t.failedIndexes[i] {
			continue
		}
		if indexedLimits(t.Job) && failures[i] > 0 {
			if left := delay(failures[i]) - t.Now.Sub(last[i]); left > 0 {
				again = shorterOf(again, left)
				continue
			}
		}
		out = append(out, PodToCreate{i, failures[i]})
	}
	return out, again
}

// backoff returns how long no Pod is created after failures: 10 s doubling to 10 minutes.
func (t *syncJobContext) backoff() time.Duration {
	if t.lastFailure.IsZero() || t.failed == 0 {
		return 0
	}
	return max(0, delay(int(t.failed))-t.Now.Sub(t.lastFailure))
}

func delay(failures int) time.Duration {
	d := firstBackoff
	for i := 1; i < failures && d < maxBackoff; i++ {
		d *= 2
	}
	return min(d, maxBackoff)
}

func shorterOf(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// activePodsForRemoval sorts active Pods, first to be deleted first: unassigned, not running, not
// ready, younger.
func activePodsForRemoval(pods []*corev1.Pod) []*corev1.Pod {
	out := append([]*corev1.Pod(nil), pods...)
	removalRank := func(p *corev1.Pod) int {
		n := 0
		if p.Spec.NodeName != "" {
			n++
		}
		if p.Status.Phase == corev1.PodRunning {
			n += 2
		}
		if pod.IsReady(p) {
			n += 4
		}
		return n
	}
	sort.SliceStable(out, func(i, j int) bool {
		if a, b := removalRank(out[i]), removalRank(out[j]); a != b {
			return a < b
		}
		return out[j].CreationTimestamp.Before(&out[i].CreationTimestamp)
	})
	return out
}
