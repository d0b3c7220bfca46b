package explain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

func TestMisspeltPodAffinityLabel(t *testing.T) {
	labelled := func(name, namespace, app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace,
			Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: "n1"}}
	}
	wants := labelled("web", "default", "web")
	wants.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   "zone",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}}}}}}
	byAffinity := []journal.NodeRefusal{{Node: "n1", Plugin: "InterPodAffinity"}}
	for name, c := range map[string]struct {
		refusals []journal.NodeRefusal
		pods     []*corev1.Pod
		want     string
	}{
		"another ending": {byAffinity, []*corev1.Pod{labelled("redis", "default", "caching"),
			labelled("db", "default", "db")},
			" Pod redis is labelled app=caching, not app=cache: perhaps that was meant."},
		"a typo": {byAffinity, []*corev1.Pod{labelled("redis", "default", "cashe")},
			" Pod redis is labelled app=cashe, not app=cache: perhaps that was meant."},
		"the right one is there": {byAffinity, []*corev1.Pod{labelled("redis", "default", "caching"),
			labelled("valkey", "default", "cache")}, ""},
		"another word": {byAffinity, []*corev1.Pod{labelled("db", "default", "db"), labelled("cat", "default", "cat")},
			""},
		"elsewhere": {byAffinity, []*corev1.Pod{labelled("redis", "other", "caching")}, ""},
		"refused for else": {[]journal.NodeRefusal{{Node: "n1", Plugin: "NodeResourcesFit"}},
			[]*corev1.Pod{labelled("redis", "default", "caching")}, ""},
	} {
		if got := misspeltLabel(c.refusals, In{Pod: wants, ClusterContext: &ClusterContext{Pods: c.pods}}); got !=
			c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := misspeltLabel(byAffinity, In{Pod: wants}); got != "" {
		t.Errorf("who may not see the Pods around reads %q", got)
	}
}
