package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// A finalizer of Kubernetes is no trouble for a minute, somebody else's is one at once.
//
// row: OPS-15
func TestFinalizersOfKubernetesAreNoTroubleAtFirst(t *testing.T) {
	for _, c := range []struct {
		finalizers []string
		ago        time.Duration
		note       bool
	}{
		{[]string{"batch.kubernetes.io/job-tracking"}, time.Second, true},
		{[]string{"batch.kubernetes.io/job-tracking"}, 2 * time.Minute, false},
		{[]string{"batch.kubernetes.io/job-tracking", "x.example/y"}, time.Second, false},
		{[]string{"x.example/y"}, time.Second, false},
	} {
		end := at(-c.ago)
		in := In{Now: at(0).Time, Pod: &corev1.Pod{}}
		in.Pod.DeletionTimestamp, in.Pod.Finalizers = &end, c.finalizers
		var got []finding.Finding
		for _, f := range endFindings(in) {
			if f.Code == "FinalizerHolds" {
				got = append(got, f)
			}
		}
		if len(got) != 1 || (got[0].Severity == finding.Note) != c.note {
			t.Errorf("%v, %s ago: got %+v, want one finding, a note: %t", c.finalizers, c.ago, got, c.note)
		}
	}
}
