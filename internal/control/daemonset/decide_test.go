package daemonset

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/wrappers"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return wrappers.MakeNode().Name(name).Label("disk", name).Taints(taints...).Obj()
}

func pod(name, on, hash string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
		CreationTimestamp: metav1.NewTime(t0.Add(-time.Hour)),
		Labels:            map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash}},
		Spec: corev1.PodSpec{NodeName: on},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(t0.Add(-time.Hour))}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func unready(p *corev1.Pod)       { p.Status.Conditions = nil }
func ending(p *corev1.Pod)        { p.DeletionTimestamp = &metav1.Time{Time: t0} }
func failed(p *corev1.Pod)        { p.Status.Phase = corev1.PodFailed }
func setCreatedNow(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(t0) }

func set(surge, unavailable string) *appsv1.DaemonSet {
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "ds", Namespace: "ns", UID: "ds"},
		Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &s,
				MaxUnavailable: &u}}}}
}

func planText(p Plan) string {
	var out []string
	for _, n := range p.Create {
		out = append(out, "+"+n)
	}
	for _, x := range append(append([]*corev1.Pod{}, p.Delete...), p.Finished...) {
		out = append(out, "-"+x.Name)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

// row: CTL-12
func TestOnePodOnEachNode(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Effect: effect}
	}
	chosen := set("0", "1")
	chosen.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "n2"}
	toOne := pod("waits", "", "new")
	toOne.Spec.Affinity = Pod(set("0", "1"), "gone", "new").Spec.Affinity
	n1, n2 := node("n1"), node("n2")
	for _, c := range []struct {
		name  string
		set   *appsv1.DaemonSet
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  string
	}{
		{"a new node gets one", set("0", "1"), []*corev1.Node{n1, n2}, []*corev1.Pod{pod("a", "n1", "new")}, "+n2"},
		{"only where the selector fits", chosen, []*corev1.Node{n1, n2}, []*corev1.Pod{pod("a", "n1", "new")},
			"+n2 -a"},
		{"not where a taint forbids", set("0", "1"),
			[]*corev1.Node{node("n1", taint("x", corev1.TaintEffectNoSchedule))}, nil, ""},
		{"NoSchedule drives none away", set("0", "1"),
			[]*corev1.Node{node("n1", taint("x", corev1.TaintEffectNoSchedule))}, []*corev1.Pod{pod("a", "n1", "new")},
			""},
		{"NoExecute does", set("0", "1"), []*corev1.Node{node("n1", taint("x", corev1.TaintEffectNoExecute))},
			[]*corev1.Pod{pod("a", "n1", "new")}, "-a"},
		{"a cordoned, unreachable node keeps it", set("0", "1"),
			[]*corev1.Node{node("n1", taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
				taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute))}, nil, "+n1"},
		{"the younger of two goes", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("b", "n1", "new", setCreatedNow), pod("a", "n1", "new")}, "-b"},
		{"an ending one is waited for", set("0", "1"), []*corev1.Node{n1}, []*corev1.Pod{pod("a", "n1", "new", ending)},
			""},
		{"a failed one makes room", set("0", "1"), []*corev1.Node{n1}, []*corev1.Pod{pod("a", "n1", "new", failed)},
			"-a"},
		{"one that waits for a node that is gone", set("0", "1"), []*corev1.Node{n1},
			[]*corev1.Pod{pod("a", "n1", "new"), toOne}, "-waits"},
		{"an update takes one", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "-a"},
		{"and waits until it is back", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "new", unready), pod("b", "n2", "old")}, ""},
		{"a sick old one goes at once", set("0", "1"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old", unready), pod("b", "n2", "old")}, "-a"},
		{"half at once", set("0", "50%"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "-a"},
		{"all at once", set("0", "100%"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "-a -b"},
		{"a surge puts the new one beside", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("b", "n2", "old")}, "+n1"},
		{"the old one stays until it is ready", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("c", "n1", "new", unready, setCreatedNow), pod("b", "n2", "old")},
			""},
		{"and goes then", set("1", "0"), []*corev1.Node{n1, n2},
			[]*corev1.Pod{pod("a", "n1", "old"), pod("c", "n1", "new", setCreatedNow), pod("b", "n2", "old")}, "-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := planText(Next(In{Set: c.set, Nodes: c.nodes, Pods: c.pods, Hash: "new", Now: t0})); got !=
				c.want {
				t.Errorf("plan %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnDeleteWaits(t *testing.T) {
	s := set("0", "1")
	s.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	if got := planText(Next(In{Set: s, Nodes: []*corev1.Node{node("n1")}, Pods: []*corev1.Pod{pod("a", "n1", "old")},
		Hash: "new", Now: t0})); got != "" {
		t.Errorf("planText = %q, want nothing", got)
	}
}

func TestStatus(t *testing.T) {
	in := In{Set: set("0", "1"), Hash: "new", Now: t0, Nodes: []*corev1.Node{node("n1"), node("n2"),
		node("n3", corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule})},
		Pods: []*corev1.Pod{pod("a", "n1", "new"), pod("b", "n2", "old", unready), pod("c", "n3", "new")}}
	s, _ := Status(in, 0)
	got := fmt.Sprint(s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberMisscheduled, s.NumberReady,
		s.NumberAvailable, s.NumberUnavailable, s.UpdatedNumberScheduled)
	if got != "2 2 1 1 1 1 1" {
		t.Errorf(`got %q, want "2 2 1 1 1 1 1"`, got)
	}
}

func TestPodIsForItsNodeOnly(t *testing.T) {
	s := set("0", "1")
	s.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "3"}
	s.Spec.Template.Spec.HostNetwork = true
	p := Pod(s, "n7", "h")
	if TargetNode(p) != "n7" || p.Spec.NodeName != "" || p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != "h" ||
		p.Labels[generationLabel] != "3" || len(p.Spec.Tolerations) != 7 {
		t.Errorf("got %+v, want TargetNode(p) n7, NodeName empty, Labels h, Labels[generationLabel] 3 and 7 in "+
			"Tolerations", p)
	}
}

// A Ready condition without lastTransitionTime does not show since when: with minReadySeconds the
// Pod is not available, as upstream.
func TestPodReadyWithoutTransitionTimeIsNotAvailable(t *testing.T) {
	for _, seconds := range []int32{0, 10} {
		in := In{Set: set("0", "1"), Now: t0}
		in.Set.Spec.MinReadySeconds = seconds
		p := pod("a", "n1", "new")
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		if available := in.available(p); available != (seconds == 0) {
			t.Errorf("minReadySeconds %d: available %v", seconds, available)
		}
	}
}
