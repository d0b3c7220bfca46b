package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// Evaluators returns the evaluators of all kinds: Pods, claims and Services with rules of their
// own, four kinds also under their old short names. list returns the stored objects of a kind for
// recounting; now determines which deleted Pods no longer count.
func Evaluators(list func(schema.GroupResource) generic.ListFuncByNamespace, now func() time.Time) []quota.Evaluator {
	out := []quota.Evaluator{pods(list, now), claims(list), services(list)}
	for _, name := range []corev1.ResourceName{corev1.ResourceConfigMaps, corev1.ResourceQuotas,
		corev1.ResourceReplicationControllers, corev1.ResourceSecrets} {
		gr := schema.GroupResource{Resource: string(name)}
		out = append(out, generic.NewObjectCountEvaluator(gr, list(gr), name))
	}
	return out
}
