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
)

const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 10 * time.Minute
	burst        = 500
)

// In is what the controller looks at: a Job and the Pods it controls. Settled says that all creations and deletions asked for have been seen.
type In struct {
	Job     *batchv1.Job
	Pods    []*corev1.Pod
	Settled bool
	Failed  time.Time // when a Pod of this Job failed last, as an earlier look saw it: that Pod may be gone
	Now     time.Time
}

// Birth is one Pod to create.
type Birth struct {
	Index    int // -1 without indexes
	Failures int // of this index so far
}

// Plan is what is to be done: the status is written first, then finalizers are lifted and Pods created and deleted.
type Plan struct {
	Status  batchv1.JobStatus
	Release []*corev1.Pod // whose end is counted, or will be by the status above
	Create  []Birth
	Delete  []*corev1.Pod
	Say     []batchv1.JobCondition // conditions that became true with this status
	Again   time.Duration          // look again then
	Failed  time.Time              // to be handed to the next look
}

// stopAll are the live Pods, once what was asked for before has been seen.
func (t *tally) stopAll() []*corev1.Pod {
	if !t.Settled {
		return nil
	}
	return t.live
}

// tally is the Job as its Pods show it.
type tally struct {
	In
	s                         batchv1.JobStatus
	live, ending, ended       []*corev1.Pod
	uncountedOK, uncountedBad map[types.UID]bool
	done, failedIndexes       Indexes
	succeeded, failed         int32
	lastFailure               time.Time
}

// Next decides one step (KEP-2307 for the counting, KEP-3329, -3850, -3998 for policies).
func Next(in In) Plan {
	if over(in.Job.Status.Conditions) {
		return afterwards(in)
	}
	t := count(in)
	var p Plan
	verdict := t.judge()
	suspended := in.Job.Spec.Suspend != nil && *in.Job.Spec.Suspend
	switch {
	case verdict != nil:
		t.mark(*verdict)
		p.Delete = t.stopAll()
	case suspended:
		p.Delete = t.stopAll()
	case in.Settled && in.Job.DeletionTimestamp == nil:
		t.start()
		p.Create, p.Delete, p.Again = t.manage()
	}
	if verdict == nil {
		t.suspension(suspended, &p)
	}
	t.dying(&p, verdict != nil)
	p.Release = t.release(in.Job)
	t.finish(&p)
	p.Status, p.Failed = t.s, t.lastFailure
	p.Again = sooner(p.Again, t.deadline())
	return p
}

func over(cs []batchv1.JobCondition) bool {
	for _, c := range cs {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// afterwards lifts finalizers that are left and stops what still runs.
func afterwards(in In) Plan {
	p := Plan{Status: in.Job.Status}
	for _, pod := range in.Pods {
		if tracked(pod) {
			p.Release = append(p.Release, pod)
		}
		if pod.DeletionTimestamp == nil && !finished(pod) {
			p.Delete = append(p.Delete, pod)
		}
	}
	return p
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func tracked(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }

// uncounted tells whether a Pod has the tracking finalizer though none of the namespace's Jobs will count its end: its
// Job is gone, or has set it free and no other will take it.
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

// onlyFailed tells whether a Pod is replaced only when it has ended, not already when it is ending.
func onlyFailed(j *batchv1.Job) bool {
	return j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed || j.Spec.PodFailurePolicy != nil && j.Spec.PodReplacementPolicy == nil
}

func count(in In) *tally {
	t := &tally{In: in, s: *in.Job.Status.DeepCopy(), uncountedOK: map[types.UID]bool{}, uncountedBad: map[types.UID]bool{}, lastFailure: in.Failed}
	if t.s.UncountedTerminatedPods == nil {
		t.s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	byUID := map[types.UID]*corev1.Pod{}
	for _, p := range in.Pods {
		byUID[p.UID] = p
	}
	t.settle(byUID)
	t.done = ParseIndexes(t.s.CompletedIndexes, completions(in.Job))
	if in.Job.Spec.BackoffLimitPerIndex != nil {
		text := ""
		if t.s.FailedIndexes != nil {
			text = *t.s.FailedIndexes
		}
		t.failedIndexes = ParseIndexes(text, completions(in.Job))
	}
	pods := append([]*corev1.Pod(nil), in.Pods...)
	sort.SliceStable(pods, func(i, j int) bool { return pods[i].CreationTimestamp.Before(&pods[j].CreationTimestamp) })
	for _, p := range pods {
		t.sort(p)
	}
	t.succeeded = t.s.Succeeded + int32(len(t.uncountedOK))
	t.failed = t.s.Failed + int32(len(t.uncountedBad))
	if indexed(in.Job) {
		t.succeeded = int32(len(t.done))
	}
	t.writeCounts()
	return t
}

// settle moves ends whose Pods hold no finalizer any more from the list of uncounted ones to the counts: each end counts once, whatever happens.
func (t *tally) settle(byUID map[types.UID]*corev1.Pod) {
	keep := func(uids []types.UID, total *int32, into map[types.UID]bool, counts bool) {
		for _, uid := range uids {
			if p := byUID[uid]; p != nil && tracked(p) {
				into[uid] = true
			} else if counts {
				*total++
			}
		}
	}
	u := t.s.UncountedTerminatedPods
	keep(u.Succeeded, &t.s.Succeeded, t.uncountedOK, !indexed(t.Job))
	keep(u.Failed, &t.s.Failed, t.uncountedBad, true)
}

// sort puts a Pod where it belongs and notes ends that are not counted yet.
func (t *tally) sort(p *corev1.Pod) {
	outside := indexed(t.Job) && (indexOf(p) < 0 || indexOf(p) >= completions(t.Job))
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		t.ended = append(t.ended, p)
		if tracked(p) && !outside {
			if indexed(t.Job) {
				t.done[indexOf(p)] = true
			} else {
				t.uncountedOK[p.UID] = true
			}
		}
	case p.Status.Phase == corev1.PodFailed:
		t.ended = append(t.ended, p)
		t.lastFailure = later(t.lastFailure, endOf(p))
		if tracked(p) && !outside && !t.met() {
			t.fail(p)
		}
	case p.DeletionTimestamp != nil:
		t.ending = append(t.ending, p)
		if !onlyFailed(t.Job) && tracked(p) && !outside && !t.stoppedByUs() && !t.met() {
			t.uncountedBad[p.UID] = true
			t.lastFailure = later(t.lastFailure, askedToEnd(p))
		}
	default:
		t.live = append(t.live, p)
	}
}

// met tells whether the Job has reached its goal: Pods that are stopped since then are no failures.
func (t *tally) met() bool {
	return slices.ContainsFunc(t.Job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuccessCriteriaMet && c.Status == corev1.ConditionTrue
	})
}

// stoppedByUs tells whether the ending Pods were deleted because of suspension: those are no failures.
func (t *tally) stoppedByUs() bool { return t.Job.Spec.Suspend != nil && *t.Job.Spec.Suspend }

func (t *tally) fail(p *corev1.Pod) {
	action := rule(t.Job, p)
	if action == batchv1.PodFailurePolicyActionIgnore {
		return
	}
	t.uncountedBad[p.UID] = true
	limit := t.Job.Spec.BackoffLimitPerIndex
	if limit != nil && (failuresOf(p)+1 > int(*limit) || action == batchv1.PodFailurePolicyActionFailIndex) {
		t.failedIndexes[indexOf(p)] = true
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// askedToEnd is when the deletion of a Pod was asked for.
func askedToEnd(p *corev1.Pod) time.Time {
	at := p.DeletionTimestamp.Time
	if g := p.DeletionGracePeriodSeconds; g != nil {
		at = at.Add(-time.Duration(*g) * time.Second)
	}
	return at
}

// endOf is when a Pod ended, by the first that tells it (upstream's order): all its containers, its Ready condition, its deletion; else when it
// was made.
func endOf(p *corev1.Pod) time.Time {
	if end := containersEnd(p); !end.IsZero() {
		return end
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if p.DeletionTimestamp != nil {
		return askedToEnd(p)
	}
	return p.CreationTimestamp.Time
}

// containersEnd is when the last of a Pod's containers ended, sidecars among them; zero while one of them does not tell.
func containersEnd(p *corev1.Pod) time.Time {
	var end time.Time
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if init := slices.IndexFunc(p.Spec.InitContainers, func(k corev1.Container) bool { return k.Name == c.Name }); init >= 0 &&
				(p.Spec.InitContainers[init].RestartPolicy == nil || *p.Spec.InitContainers[init].RestartPolicy != corev1.ContainerRestartPolicyAlways) {
				continue
			}
			if c.State.Terminated == nil || c.State.Terminated.FinishedAt.IsZero() {
				return time.Time{}
			}
			end = later(end, c.State.Terminated.FinishedAt.Time)
		}
	}
	return end
}

func (t *tally) writeCounts() {
	ready, ending := int32(0), int32(len(t.ending))
	for _, p := range t.live {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	t.s.Active, t.s.Ready, t.s.Terminating = int32(len(t.live)), &ready, &ending
	if indexed(t.Job) {
		t.s.CompletedIndexes = t.done.String()
		t.s.Succeeded = t.succeeded
	}
	if t.failedIndexes != nil {
		text := t.failedIndexes.String()
		t.s.FailedIndexes = &text
	}
	t.s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: list(t.uncountedOK), Failed: list(t.uncountedBad)}
}

func list(set map[types.UID]bool) []types.UID {
	var out []types.UID
	for uid := range set {
		out = append(out, uid)
	}
	slices.Sort(out)
	return out
}

func (t *tally) start() {
	if t.s.StartTime == nil {
		now := metav1.NewTime(t.Now)
		t.s.StartTime = &now
	}
}

// release are the Pods whose finalizer may go: their end is in the status, or will never count.
func (t *tally) release(j *batchv1.Job) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range append(append([]*corev1.Pod(nil), t.ended...), t.ending...) {
		if tracked(p) && (finished(p) || !onlyFailed(j) || j.DeletionTimestamp != nil) {
			out = append(out, p)
		}
	}
	return out
}
