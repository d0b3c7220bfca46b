package disruption

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// A change of a Pod wakes every budget that counts it or counted it, each once.
//
// row: PDB-05
func TestAPodWakesEveryBudgetThatSelectsIt(t *testing.T) {
	budget := func(name string, selector map[string]string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selector}}}
	}
	labelled := func(labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: labels}}
	}
	web, both := map[string]string{"app": "web"}, map[string]string{"app": "web", "tier": "front"}
	for name, c := range map[string]struct {
		old, cur runtime.Object
		want     []string
		warnings int
	}{
		"a new Pod of two budgets":        {nil, labelled(both), []string{"ns/a", "ns/b"}, 1},
		"it changes":                      {labelled(both), labelled(both), []string{"ns/a", "ns/b"}, 1},
		"it leaves one":                   {labelled(both), labelled(web), []string{"ns/a", "ns/b"}, 0},
		"it goes":                         {labelled(both), nil, []string{"ns/a", "ns/b"}, 1},
		"one budget":                      {nil, labelled(web), []string{"ns/a"}, 0},
		"none":                            {nil, labelled(map[string]string{"app": "api"}), nil, 0},
		"it comes from a budget to none":  {labelled(web), labelled(nil), []string{"ns/a"}, 0},
		"it comes from no budget to both": {labelled(nil), labelled(both), []string{"ns/a", "ns/b"}, 1},
	} {
		recorder := record.NewFakeRecorder(10)
		k := &controller{controllerContext: controllerruntime.ControllerContext{Recorder: recorder},
			budgets: policylisters.NewPodDisruptionBudgetLister(indexerOf(t, budget("a", web),
				budget("b", map[string]string{"tier": "front"})))}
		got := k.podChanged(c.old, c.cur)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: wakes %v, want %v", name, got, c.want)
		}
		if n := len(recorder.Events); n != c.warnings {
			t.Errorf("%s: got %d warnings of several budgets, want %d", name, n, c.warnings)
		}
	}
}
