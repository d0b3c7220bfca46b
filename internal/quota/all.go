package quota

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// Evaluators know what objects use: Pods, claims and Services by rules of their own, four kinds
// also by their old short names. list gives the stored objects of a kind, for counting anew; now
// tells which deleted Pods are over.
func Evaluators(list func(schema.GroupResource) generic.ListFuncByNamespace, now func() time.Time) []quota.Evaluator {
	out := []quota.Evaluator{pods(list, now), claims(list), services(list)}
	for _, name := range []corev1.ResourceName{corev1.ResourceConfigMaps, corev1.ResourceQuotas,
		corev1.ResourceReplicationControllers, corev1.ResourceSecrets} {
		gr := schema.GroupResource{Resource: string(name)}
		out = append(out, generic.NewObjectCountEvaluator(gr, list(gr), name))
	}
	return out
}
