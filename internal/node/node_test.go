package node

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestIsReady(t *testing.T) {
	pressure := v1.NodeCondition{Type: v1.NodeMemoryPressure, Status: v1.ConditionTrue}
	for status, want := range map[v1.ConditionStatus]bool{
		"": false, v1.ConditionTrue: true, v1.ConditionFalse: false, v1.ConditionUnknown: false,
	} {
		n := &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{pressure}}}
		if status != "" {
			n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: status})
		}
		if got := IsReady(n); got != want {
			t.Errorf("Ready is %q: got ready %t, want %t", status, got, want)
		}
		if got := NotReadyCondition(n) != nil; got != (status != "" && status != v1.ConditionTrue) {
			t.Errorf("Ready is %q: got not ready %t, want the opposite of ready where it is said", status, got)
		}
		c := ReadyCondition(n)
		if (c != nil) != (status != "") || c != nil && (c.Type != v1.NodeReady || c.Status != status) {
			t.Errorf("Ready is %q: got condition %+v, want that condition", status, c)
		}
	}
}
