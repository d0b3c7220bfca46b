package ttlafterfinished

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTimeLeft(t *testing.T) {
	t0, ttl := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), int32(60)
	done := []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(t0)}}
	for name, c := range map[string]struct {
		ttl  *int32
		cond []batchv1.JobCondition
		at   time.Time
		left time.Duration
		ends bool
	}{
		"no limit":     {nil, done, t0, 0, false},
		"not finished": {&ttl, nil, t0, 0, false},
		"half-way":     {&ttl, done, t0.Add(30 * time.Second), 30 * time.Second, true},
		"finished, nobody tells when": {&ttl,
			[]batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}, t0, 0, false},
		"over": {&ttl, done, t0.Add(time.Hour), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			left, ends := TimeLeft(&batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: c.ttl},
				Status: batchv1.JobStatus{Conditions: c.cond}}, c.at)
			if left != c.left || ends != c.ends {
				t.Fatalf("got %v, %v, want left %v and ends %v", left, ends, c.left, c.ends)
			}
		})
	}
}
