package podgc

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Removals count under upstream's names and reasons.
func TestRemovalsAreCounted(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "counted", Name: "p"}}
	Removal{p, "DeletionByPodGC", noNode, true}.count(nil)
	Removal{p, "DeletionByPodGC", "PodGC: node has the out-of-service taint", true}.count(nil)
	Removal{p, "terminated", "", false}.count(errors.New("no"))
	Removal{p, "unscheduled", "", false}.count(nil)
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 2 && l[0].GetValue() == "counted" {
				got[f.GetName()+" "+l[1].GetName()+"="+l[1].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	for _, want := range []string{
		"force_delete_pods_total reason=orphaned", "force_delete_pods_total reason=out-of-service",
		"force_delete_pods_total reason=terminated",
		"force_delete_pods_total reason=unscheduled", "force_delete_pod_errors_total reason=terminated",
	} {
		if got["pod_gc_collector_"+want] != 1 {
			t.Errorf("%s is %v, want 1", want, got["pod_gc_collector_"+want])
		}
	}
	if len(got) != 5 {
		t.Errorf("%d series, want 5: %v", len(got), got)
	}
}
