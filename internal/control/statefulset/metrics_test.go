package statefulset

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-base/metrics/testutil"
)

// A set shows how many of its Pods may be unavailable and how many are, until it is gone.
func TestSetsShowWhatIsUnavailable(t *testing.T) {
	half := func(s *appsv1.StatefulSet) {
		s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
			MaxUnavailable: new(intstr.FromString("50%"))}
	}
	for _, c := range []struct {
		name string
		in   In
		want string // most, now
	}{
		{"all there", In{Set: set(2), Pods: []*corev1.Pod{pod(0, "a"), pod(1, "a")}, Now: t0}, "1 0"},
		{"half may, three do not", In{Set: set(4, half), Pods: []*corev1.Pod{pod(0, "a"), pod(1, "a", unready),
			pod(2, "a", ending), pod(9, "a")}, Now: t0}, "2 3"},
	} {
		recordMetrics(c.in)
		l := []string{"ns", "db", string(c.in.Set.Spec.PodManagementPolicy)}
		most, err := testutil.GetGaugeMetricValue(maxUnavailable.WithLabelValues(l...))
		if err != nil {
			t.Fatal(err)
		}
		now, err := testutil.GetGaugeMetricValue(unavailableReplicas.WithLabelValues(l...))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(most, now); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	forget("ns", "other")
	left := func() float64 {
		v, err := testutil.GetGaugeMetricValue(unavailableReplicas.WithLabelValues("ns", "db", ""))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := left(); got != 3 {
		t.Errorf("after another set went: got %v, want 3", got)
	}
	forget("ns", "db")
	if got := left(); got != 0 {
		t.Errorf("after the set went: got %v, want 0 of a new series", got)
	}
}
