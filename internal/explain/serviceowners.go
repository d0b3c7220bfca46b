package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// othersSelected tells of a Service of whose endpoints some fail that those are Pods of another
// workload, which its selector takes in, with a label that only the others have.
func (s Subject) othersSelected(a *Answer, x *corev1.Service) {
	var fail, serve []*corev1.Pod
	for _, p := range s.runningPods() {
		if strings.Contains(a.Cause, "Pod "+p.Name+" ") {
			fail = append(fail, p)
		} else {
			serve = append(serve, p)
		}
	}
	if len(fail) == 0 || len(serve) == 0 || slices.ContainsFunc(fail, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(serve, func(q *corev1.Pod) bool { return madeBy(p) == madeBy(q) })
	}) {
		return
	}
	a.Cause += fmt.Sprintf(" The Service selects %s, which Pods of other workloads have too: of %s, beside those "+
		"of %s.",
		labels.Set(x.Spec.Selector), madeBy(fail[0]), madeBy(serve[0]))
	for _, key := range slices.Sorted(maps.Keys(serve[0].Labels)) {
		value := serve[0].Labels[key]
		differs := func(p *corev1.Pod) bool { return p.Labels[key] != value }
		if strings.Contains(key, "hash") || strings.Contains(key, "pod-name") || strings.Contains(key, "pod-index") ||
			slices.ContainsFunc(serve, differs) || !slices.ContainsFunc(fail, differs) {
			continue
		}
		fix := commandFix(fmt.Sprintf("select %s=%s as well, which only the Pods that serve have", key, value),
			s.kubectl(x, "merge", fmt.Sprintf(`{"spec":{"selector":{%q:%q}}}`, key, value)))
		a.Fixes = append([]Fix{fix}, a.Fixes...)
		return
	}
}

// madeBy names what made a Pod: its controller, or itself.
func madeBy(p *corev1.Pod) string {
	if r := metav1.GetControllerOf(p); r != nil {
		name := r.Name
		if hash := p.Labels["pod-template-hash"]; hash != "" {
			return "Deployment " + strings.TrimSuffix(name, "-"+hash)
		}
		return r.Kind + " " + name
	}
	return "Pod " + p.Name
}
