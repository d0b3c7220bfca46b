package job

import (
	"slices"
	"sort"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	jobutil "github.com/gantry-project/gantry/internal/job"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 10 * time.Minute
	burst        = 500
)

// In is the input of Next: a Job and the Pods it controls. Settled: all requested creations and
// deletions have been observed.
type In struct {
	Job             *batchv1.Job
	Pods            []*corev1.Pod
	ExpectationsMet bool
	Failed          time.Time // when a Pod of this Job last failed, from an earlier sync: that Pod may be gone
	Now             time.Time
}

// PodToCreate is one Pod to create.
type PodToCreate struct {
	Index    int // -1 without indexes
	Failures int // of this index so far
}

// Plan is the outcome of Next: the status is written first, then finalizers are removed and Pods
// created and deleted.
type Plan struct {
	Status       batchv1.JobStatus
	Release      []*corev1.Pod // whose end is counted, or will be by the status above
	Create       []PodToCreate
	Delete       []*corev1.Pod
	Finished     []batchv1.JobCondition // conditions that become true with this status
	RequeueAfter time.Duration          // look again then
	Failed       time.Time              // to be passed to the next sync
}

// stopAll returns the live Pods, if earlier requests have been observed.
func (t *syncJobContext) stopAll() []*corev1.Pod {
	if !t.ExpectationsMet {
		return nil
	}
	return t.active
}

// syncJobContext is the state of one sync of a Job.
type syncJobContext struct {
	In
	status                          batchv1.JobStatus
	active, terminating, finished   []*corev1.Pod
	uncountedOK, uncountedBad       map[types.UID]bool
	succeededIndexes, failedIndexes Indexes
	succeeded, failed               int32
	lastFailure                     time.Time
}

// Next plans one step (KEP-2307 for counting, KEP-3329, -3850, -3998 for policies).
func Next(in In) Plan {
	if jobutil.IsFinished(in.Job) {
		return planFinished(in)
	}
	t := countPods(in)
	var p Plan
	finished := t.evaluateFinished()
	suspended := in.Job.Spec.Suspend != nil && *in.Job.Spec.Suspend
	switch {
	case finished != nil:
		if !suspended {
			t.start() // one without completions ends at once
		}
		t.addInterimCondition(*finished)
		p.Delete = t.stopAll()
	case suspended:
		p.Delete = t.stopAll()
	case in.ExpectationsMet && in.Job.DeletionTimestamp == nil:
		t.start()
		p.Create, p.Delete, p.RequeueAfter = t.manage()
	}
	if finished == nil {
		t.suspension(suspended, &p)
	}
	t.terminatePods(&p, finished != nil)
	p.Release = t.release(in.Job)
	t.finalize(&p)
	p.Status, p.Failed = t.status, t.lastFailure
	p.RequeueAfter = shorterOf(p.RequeueAfter, t.deadline())
	return p
}

// planFinished removes remaining finalizers and stops running Pods.
func planFinished(in In) Plan {
	p := Plan{Status: in.Job.Status}
	for _, pod := range in.Pods {
		if tracked(pod) {
			p.Release = append(p.Release, pod)
		}
		if podutil.IsActive(pod) {
			p.Delete = append(p.Delete, pod)
		}
	}
	return p
}

func tracked(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }

// uncounted reports whether a Pod has the tracking finalizer although no Job of the namespace will
// count its end: its Job is gone, or released it and no other will adopt it.
func uncounted(p *corev1.Pod, jobs []*batchv1.Job) bool {
	if !tracked(p) {
		return false
	}
	owner := metav1.GetControllerOf(p)
	if owner != nil && owner.Kind != kind.Kind {
		return false
	}
	return !slices.ContainsFunc(jobs, func(j *batchv1.Job) bool {
		if owner != nil {
			return j.UID == owner.UID
		}
		selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
		return err == nil && j.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels))
	})
}

func completions(j *batchv1.Job) int {
	if j.Spec.Completions == nil {
		return 0
	}
	return int(*j.Spec.Completions)
}

// replacesFailedOnly reports whether a Pod is replaced only after it has failed, not already while
// terminating.
func replacesFailedOnly(j *batchv1.Job) bool {
	return j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed ||
		j.Spec.PodFailurePolicy != nil && j.Spec.PodReplacementPolicy == nil
}

func countPods(in In) *syncJobContext {
	t := &syncJobContext{In: in, status: *in.Job.Status.DeepCopy(), uncountedOK: map[types.UID]bool{},
		uncountedBad: map[types.UID]bool{}, lastFailure: in.Failed}
	if t.status.UncountedTerminatedPods == nil {
		t.status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	byUID := map[types.UID]*corev1.Pod{}
	for _, p := range in.Pods {
		byUID[p.UID] = p
	}
	t.countUncounted(byUID)
	t.succeededIndexes = ParseIndexes(t.status.CompletedIndexes, completions(in.Job))
	if in.Job.Spec.BackoffLimitPerIndex != nil {
		text := ""
		if t.status.FailedIndexes != nil {
			text = *t.status.FailedIndexes
		}
		t.failedIndexes = ParseIndexes(text, completions(in.Job))
	}
	pods := append([]*corev1.Pod(nil), in.Pods...)
	sort.SliceStable(pods, func(i, j int) bool { return pods[i].CreationTimestamp.Before(&pods[j].CreationTimestamp) })
	for _, p := range pods {
		t.classifyPod(p)
	}
	t.succeeded = t.status.Succeeded + int32(len(t.uncountedOK))
	t.failed = t.status.Failed + int32(len(t.uncountedBad))
	if indexed(in.Job) {
		t.succeeded = int32(len(t.succeededIndexes))
	}
	t.writeCounts()
	return t
}

// countUncounted moves Pods without finalizer from uncountedTerminatedPods to the counts, so that
// each end counts exactly once.
func (t *syncJobContext) countUncounted(byUID map[types.UID]*corev1.Pod) {
	keep := func(uids []types.UID, total *int32, into map[types.UID]bool, counts bool) {
		for _, uid := range uids {
			if p := byUID[uid]; p != nil && tracked(p) {
				into[uid] = true
			} else if counts {
				*total++
			}
		}
	}
	u := t.status.UncountedTerminatedPods
	keep(u.Succeeded, &t.status.Succeeded, t.uncountedOK, !indexed(t.Job))
	keep(u.Failed, &t.status.Failed, t.uncountedBad, true)
}

// classifyPod sorts a Pod by state and records ends that are not counted yet.
func (t *syncJobContext) classifyPod(p *corev1.Pod) {
	outside := indexed(t.Job) && (indexOf(p) < 0 || indexOf(p) >= completions(t.Job))
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		t.finished = append(t.finished, p)
		if tracked(p) && !outside {
			if indexed(t.Job) {
				t.succeededIndexes[indexOf(p)] = true
			} else {
				t.uncountedOK[p.UID] = true
			}
		}
	case p.Status.Phase == corev1.PodFailed:
		t.finished = append(t.finished, p)
		t.lastFailure = laterOf(t.lastFailure, podFinishTime(p))
		if tracked(p) && !outside && !t.completionsReached() {
			t.countFailure(p)
		}
	case p.DeletionTimestamp != nil:
		t.terminating = append(t.terminating, p)
		if !replacesFailedOnly(t.Job) && tracked(p) && !outside && !t.suspendedOrFinished() && !t.completionsReached() {
			t.uncountedBad[p.UID] = true
			t.lastFailure = laterOf(t.lastFailure, deletionRequestTime(p))
		}
	default:
		t.active = append(t.active, p)
	}
}

// completionsReached reports whether the Job has reached its completions: Pods stopped since then
// are not failures.
func (t *syncJobContext) completionsReached() bool {
	return slices.ContainsFunc(t.Job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuccessCriteriaMet && c.Status == corev1.ConditionTrue
	})
}

// suspendedOrFinished reports whether terminating Pods were deleted because of suspension: those
// are not failures.
func (t *syncJobContext) suspendedOrFinished() bool {
	return t.Job.Spec.Suspend != nil && *t.Job.Spec.Suspend
}

func (t *syncJobContext) countFailure(p *corev1.Pod) {
	action := podFailureAction(t.Job, p)
	if action == batchv1.PodFailurePolicyActionIgnore {
		return
	}
	t.uncountedBad[p.UID] = true
	limit := t.Job.Spec.BackoffLimitPerIndex
	if limit != nil && (failuresOf(p)+1 > int(*limit) || action == batchv1.PodFailurePolicyActionFailIndex) {
		t.failedIndexes[indexOf(p)] = true
	}
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// deletionRequestTime returns when the deletion of a Pod was requested.
func deletionRequestTime(p *corev1.Pod) time.Time {
	at := p.DeletionTimestamp.Time
	if g := p.DeletionGracePeriodSeconds; g != nil {
		at = at.Add(-podutil.Seconds(*g))
	}
	return at
}

// podFinishTime returns when a Pod ended, from the first available of upstream's sources: its
// containers, its Ready condition, its deletion, its creation.
func podFinishTime(p *corev1.Pod) time.Time {
	if end := containersFinishTime(p); !end.IsZero() {
		return end
	}
	c := podutil.ReadyCondition(p)
	if c != nil && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	if p.DeletionTimestamp != nil {
		return deletionRequestTime(p)
	}
	return p.CreationTimestamp.Time
}

// containersFinishTime returns when the last of a Pod's containers, sidecars included, terminated;
// zero if one has no time.
func containersFinishTime(p *corev1.Pod) time.Time {
	var end time.Time
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if init := slices.IndexFunc(p.Spec.InitContainers,
				func(k corev1.Container) bool { return k.Name == c.Name }); init >= 0 &&
				!podutil.IsSidecar(&p.Spec.InitContainers[init]) {
				continue
			}
			if c.State.Terminated == nil || c.State.Terminated.FinishedAt.IsZero() {
				return time.Time{}
			}
			end = laterOf(end, c.State.Terminated.FinishedAt.Time)
		}
	}
	return end
}

func (t *syncJobContext) writeCounts() {
	ready, ending := int32(0), int32(len(t.terminating))
	for _, p := range t.active {
		if podutil.IsReady(p) {
			ready++
		}
	}
	t.status.Active, t.status.Ready, t.status.Terminating = int32(len(t.active)), &ready, &ending
	if indexed(t.Job) {
		t.status.CompletedIndexes = t.succeededIndexes.String()
		t.status.Succeeded = t.succeeded
	}
	if t.failedIndexes != nil {
		text := t.failedIndexes.String()
		t.status.FailedIndexes = &text
	}
	t.status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: list(t.uncountedOK),
		Failed: list(t.uncountedBad)}
}

func list(set map[types.UID]bool) []types.UID {
	var out []types.UID
	for uid := range set {
		out = append(out, uid)
	}
	slices.Sort(out)
	return out
}

func (t *syncJobContext) start() {
	if t.status.StartTime == nil {
		now := metav1.NewTime(t.Now)
		t.status.StartTime = &now
	}
}

// release returns the Pods whose finalizer may be removed: their end is in the status, or will
// never count (upstream: trackJobStatusAndRemoveFinalizers).
func (t *syncJobContext) release(j *batchv1.Job) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range append(append([]*corev1.Pod(nil), t.finished...), t.terminating...) {
		if tracked(p) && (podutil.IsTerminal(p) || !replacesFailedOnly(j) || j.DeletionTimestamp != nil) {
			out = append(out, p)
		}
	}
	return out
}
