package coscheduling

import (
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-scheduler/framework"
)

// What a group asks wakes its members, what became of them does not: woken by that, some would be
// tried before the others are there.
func TestPodGroupQueueingHints(t *testing.T) {
	member := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train-0",
		Labels: map[string]string{Label: "train"}}}
	group := func(name string, min int64, phase string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "default", "name": name}, "spec": map[string]any{"minMember": min},
			"status": map[string]any{"phase": phase},
		}}
	}
	for name, c := range map[string]struct {
		before, now any
		want        framework.QueueingHint
	}{
		"made":           {nil, group("train", 3, ""), framework.Queue},
		"asks for fewer": {group("train", 3, "Pending"), group("train", 2, "Pending"), framework.Queue},
		"its status":     {group("train", 3, ""), group("train", 3, "Pending"), framework.QueueSkip},
		"another group":  {nil, group("other", 3, ""), framework.QueueSkip},
		"no group":       {nil, "train", framework.QueueSkip},
	} {
		if got, err := isSchedulableAfterPodGroupChange(logr.Discard(), member, c.before, c.now); err != nil ||
			got != c.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
}
