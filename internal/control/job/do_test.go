package job

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The tracking finalizer is removed from Pods whose end no Job will count.
func TestPodsThatNoJobCountsAreSetFree(t *testing.T) {
	labels := map[string]string{"job": "j"}
	job := func(uid string, change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: types.UID(uid)},
			Spec: batchv1.JobSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}}
		if change != nil {
			change(j)
		}
		return j
	}
	pod := func(owner string, finalizers ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, Finalizers: finalizers}}
		if owner != "" {
			what, uid, _ := strings.Cut(owner, " ")
			p.OwnerReferences = []metav1.OwnerReference{{Kind: what, Name: "j", UID: types.UID(uid),
				Controller: new(true)}}
		}
		return p
	}
	const held = batchv1.JobTrackingFinalizer
	leaving := job("u", func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{} })
	others := job("x", func(j *batchv1.Job) { j.Spec.Selector.MatchLabels = map[string]string{"job": "x"} })
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		jobs []*batchv1.Job
		want bool
	}{
		"its Job is there":                     {pod("Job u", held), []*batchv1.Job{job("u", nil)}, false},
		"its Job is gone":                      {pod("Job u", held), nil, true},
		"a Job of that name was made anew":     {pod("Job u", held), []*batchv1.Job{job("new", nil)}, true},
		"not held":                             {pod("Job u"), nil, false},
		"another kind's":                       {pod("ReplicaSet u", held), nil, false},
		"set free, the Job is gone":            {pod("", held), nil, true},
		"set free, the Job is going":           {pod("", held), []*batchv1.Job{leaving}, true},
		"set free, a Job will take it":         {pod("", held), []*batchv1.Job{job("new", nil)}, false},
		"set free, Jobs with other labels are": {pod("", held), []*batchv1.Job{others}, true},
	} {
		if got := uncounted(c.pod, c.jobs); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// A Job from a cache that is behind the last write is not synced; the event that catches up is
// synced without delay.
func TestAJobOlderThanWhatWasWrittenWaits(t *testing.T) {
	c := &controller{lastWritten: map[types.UID]string{}, failed: nil}
	at := func(version string) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "u", ResourceVersion: version,
			Generation: 1}}
	}
	if c.cacheBehind(at("9")) {
		t.Error("nothing was written")
	}
	c.lastWritten["u"] = "10"
	if got, want := []bool{
		c.cacheBehind(at("9")), c.cacheBehind(at("10")), c.cacheBehind(at("11")),
	}, []bool{true, false, false}; !slices.Equal(got, want) {
		t.Errorf("9 is older than 10, 10 and 11 are not: got %v, want %v", got, want)
	}
	if keys := c.jobChanged(at("9"), at("10")); len(keys) != 1 || keys[0] != "n/j" {
		t.Errorf("looks at %q", keys)
	}
	if c.cacheBehind(at("9")) {
		t.Error("what was seen is still waited for")
	}
	c.lastWritten["u"] = "12"
	if keys := c.jobChanged(at("10"), nil); len(keys) != 1 || len(c.lastWritten) != 0 {
		t.Errorf("a Job that went: looks at %q, remembers %v, want 1 of them, none", keys, c.lastWritten)
	}
}
