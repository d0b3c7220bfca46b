package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// A taint that a node's controller sets for a condition is not to be taken off: the condition is to
// blame.
func TestATaintOfAConditionBlamesTheCondition(t *testing.T) {
	for key, want := range map[string]struct{ field, remedy string }{
		corev1.TaintNodeUnreachable:  {"status.conditions[Ready]", "start the kubelet on node n"},
		corev1.TaintNodeDiskPressure: {"status.conditions[DiskPressure]", "what its kubelet reports"},
		corev1.TaintNodePIDPressure:  {"spec.taints[0]", "take the taint off"},
		"team":                       {"spec.taints[0]", "take the taint off"},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: key, Effect: corev1.TaintEffectNoSchedule}}}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "KubeletHasDiskPressure"},
				{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse}}}}
		in := In{Pod: &corev1.Pod{}, ClusterContext: &ClusterContext{Nodes: []*corev1.Node{n}}}
		got := nodeRefuses(in, journal.NodeRefusal{Node: "n", Plugin: "TaintToleration"})
		if len(got) != 1 || got[0].Field != want.field || !strings.Contains(got[0].Remedies[0].Say, want.remedy) {
			t.Errorf("%s: got %+v, want %s and the remedy %q", key, got, want.field, want.remedy)
		}
	}
}

// A Pod that was deleted for a taint of its node is said to have been, with the seconds for which
// it tolerates it.
func TestAPodThatATaintEndedSaysSo(t *testing.T) {
	seconds := int64(30)
	for reason, x := range map[string]struct {
		tolerations []corev1.Toleration
		want        string
	}{
		"DeletionByTaintManager": {nil, "spec.tolerations=repair:NoExecute"},
		"EvictionByEvictionAPI":  {nil, ""},
		"DeletionByTaintManager ": {[]corev1.Toleration{{Key: "other", TolerationSeconds: &seconds}, {Key: "repair",
			TolerationSeconds: &seconds}}, "spec.tolerations[1].tolerationSeconds=30"},
	} {
		in := In{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{
			Taints: []corev1.Taint{{Key: "repair", Effect: corev1.TaintEffectNoExecute}}}},
			Pod: &corev1.Pod{Spec: corev1.PodSpec{Tolerations: x.tolerations}, Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
					Reason: strings.TrimSpace(reason)}}}}}
		got := ""
		if f, ok := endedByTaint(in); ok {
			got = f.Field + "=" + f.Value
		}
		if got != x.want {
			t.Errorf("%q with %d tolerations: got %q, want %q", reason, len(x.tolerations), got, x.want)
		}
	}
}
