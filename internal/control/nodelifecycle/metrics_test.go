package nodelifecycle

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
)

// The gauges of a zone follow its nodes; one that is excluded from disruptions does not count.
func TestZonesAreMeasured(t *testing.T) {
	node := func(zone string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelTopologyZone: zone}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	excluded := node("measured", corev1.ConditionTrue)
	excluded.Labels[excludeDisruptionLabel] = ""
	m := newZoneMetrics()
	for _, c := range []struct {
		name string
		node *corev1.Node
		want string // size, unhealthy, health of the zone
	}{
		{"a", node("measured", corev1.ConditionTrue), "1 0 100"},
		{"b", node("measured", corev1.ConditionTrue), "2 0 100"},
		{"b", node("measured", corev1.ConditionUnknown), "2 1 50"},
		{"b", node("measured", corev1.ConditionUnknown), "2 1 50"},
		{"c", excluded, "2 1 50"},
		{"a", node("elsewhere", corev1.ConditionTrue), "1 1 0"},
		{"b", nil, "0 0 100"},
		{"b", nil, "0 0 100"},
	} {
		m.observeNode(c.name, c.node)
		var got [3]float64
		var err error
		zone := ZoneOf(node("measured", ""))
		if got[0], err = testutil.GetGaugeMetricValue(zoneSize.WithLabelValues(zone)); err != nil {
			t.Fatal(err)
		}
		if got[1], err = testutil.GetGaugeMetricValue(unhealthyNodes.WithLabelValues(zone)); err != nil {
			t.Fatal(err)
		}
		if got[2], err = testutil.GetGaugeMetricValue(zoneHealth.WithLabelValues(zone)); err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(got[0], got[1], got[2]); s != c.want {
			t.Errorf("after %s: got %s, want %s", c.name, s, c.want)
		}
	}
	execute := []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	if got, want := []bool{
		evicts(nil, execute), evicts(execute, execute), evicts(execute, nil),
	}, []bool{true, false, false}; !slices.Equal(got, want) {
		t.Errorf("an eviction is a NoExecute taint that was not there: got %v, want %v", got, want)
	}
}
