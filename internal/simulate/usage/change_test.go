package usage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
)

func TestChangesAreRead(t *testing.T) {
	for text, want := range map[string]Change{"+50%": {Factor: 1.5}, "-30%": {Factor: 0.7}, "2x": {Factor: 2},
		"800m": {CPU: 800}, "2": {CPU: 2000}, "0.5": {CPU: 500}, "512Mi": {Memory: 512 << 20}} {
		want.Text = text
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "50%", "-100%", "0x", "-2x", "NaNx", "512M", "1G", "5k", "0", "-1",
		"9000000000000000", "9000Ei", "+1e9%", "many"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is read as %+v, want an error", text, got)
		}
	}
}

// The largest load of large containers stays a number, and a container that the load does not know
// takes what it took.
func TestLoadsStayNumbers(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "1",
		OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "web", Controller: new(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}}}
	m := NewModel(Figures{"ns/a": {"c": {CPU: 1 << 40, Memory: 1 << 50}, "later": {CPU: 7, Memory: 9}}},
		behavior.Model{})
	m.PodChanged(nil, p)
	got := m.Load("ns/StatefulSet/web", []*corev1.Pod{p}, Change{Factor: 1e6})
	if got.After.CPU <= 0 || got.After.Memory <= 0 {
		t.Errorf("got %+v, want what is positive", got.After)
	}
	p = p.DeepCopy()
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "later"})
	if a := m.Of(p)["later"]; a != (Amounts{7, 9}) {
		t.Errorf("got %+v for a container that was not there, want what was measured", a)
	}
}
