package pods_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/journal"
)

// A budget that allows nothing keeps a Pod that is ready. It is not asked about Pods that have not
// begun, have ended or are being deleted; two budgets for one Pod allow nothing; and a Pod of
// another UID is left as it is.
//
// row: PDB-01
// row: PDB-02
func TestWhoseEvictionAsksTheBudget(t *testing.T) {
	c, ns := startServer(t)
	for label, name := range map[string]string{"app": "b", "tier": "other"} {
		b, err := c.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(9)),
				Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{label: "a"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, CurrentHealthy: 1,
			DesiredHealthy: 9, ExpectedPods: 9}
		if _, err := c.PolicyV1().PodDisruptionBudgets(ns).UpdateStatus(t.Context(), b,
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		name   string
		labels map[string]string
		phase  v1.PodPhase // empty: not bound
		first  bool        // it is being deleted already
		uid    types.UID   // of the eviction
		want   string      // the refusal; empty: it goes
	}{
		{"running", map[string]string{"app": "a"}, v1.PodRunning, false, "", "needs 9 healthy pods"},
		{"waits", map[string]string{"app": "a"}, "", false, "", ""},
		{"has-succeeded", map[string]string{"app": "a"}, v1.PodSucceeded, false, "", ""},
		{"has-failed", map[string]string{"app": "a"}, v1.PodFailed, false, "", ""},
		{"goes", map[string]string{"app": "a"}, v1.PodRunning, true, "", ""},
		{"of-two", map[string]string{"app": "a", "tier": "a"}, v1.PodRunning, false, "",
			"more than one PodDisruptionBudget"},
		{"of-none", map[string]string{"app": "x"}, v1.PodRunning, false, "", ""},
		{"another-uid", map[string]string{"app": "x"}, v1.PodRunning, false, "u", "the UID in the precondition"},
	} {
		pods := c.CoreV1().Pods(ns)
		p := newPod(t, ns, func(p *v1.Pod) { p.Name, p.Labels = x.name, x.labels })
		if x.phase != "" {
			if err := bind(t, ns, p); err != nil {
				t.Fatal(err)
			}
			p, err := pods.Get(t.Context(), x.name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p.Status.Phase, p.Status.Conditions = x.phase,
				[]v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
			if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if x.first {
			if err := pods.Delete(t.Context(), x.name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		options := &metav1.DeleteOptions{}
		if x.uid != "" {
			options.Preconditions = &metav1.Preconditions{UID: &x.uid}
		}
		code := 0
		result := c.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name(x.name).
			SubResource("eviction").SetHeader("Accept", "application/json").
			Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: x.name}, DeleteOptions: options}).
			Do(t.Context()).StatusCode(&code)
		err := result.Error()
		answer, _ := result.Raw()
		if x.want == "" && (code != http.StatusCreated || !strings.Contains(string(answer), `"code":201`)) {
			t.Errorf("the eviction of %s is answered with %d %s, want 201", x.name, code, answer)
		}
		said := fmt.Sprint(err)
		if s, ok := err.(apierrors.APIStatus); ok && s.Status().Details != nil {
			said += fmt.Sprint(s.Status().Details.Causes)
		}
		if (err == nil) != (x.want == "") || !strings.Contains(said, x.want) {
			t.Errorf("the eviction of %s: got %s, want %q", x.name, said, x.want)
		}
		now, err := pods.Get(t.Context(), x.name, metav1.GetOptions{})
		if stays := err == nil && now.DeletionTimestamp == nil; stays != (x.want != "") {
			t.Errorf("after the eviction of %s: got it to stay %t (%v), want %t", x.name, stays, err, x.want != "")
		}
		for i := range now.Status.Conditions {
			if x.want != "" && now.Status.Conditions[i].Type == v1.DisruptionTarget {
				t.Errorf("%s, which is refused: got %+v, want no such condition", x.name, now.Status.Conditions[i])
			}
		}
	}
	testServer.facts.Lock()
	defer testServer.facts.Unlock()
	if !slices.ContainsFunc(testServer.facts.refused, func(f journal.EvictionRefused) bool {
		return strings.Contains(f.Message, "more than one PodDisruptionBudget")
	}) {
		t.Errorf("got the facts %+v, want one of two budgets", testServer.facts.refused)
	}
}
