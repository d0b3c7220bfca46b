package apiserver

import (
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The system's priority classes stay; others go.
func TestSystemPriorityClassesCannotBeDeleted(t *testing.T) {
	_, c := shared(t)
	classes := c.SchedulingV1().PriorityClasses()
	err := classes.Delete(t.Context(), "system-node-critical", metav1.DeleteOptions{})
	const want = `priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority ` +
		`class and cannot be deleted`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "passing"},
		Value: 1}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := classes.Delete(t.Context(), "passing", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
