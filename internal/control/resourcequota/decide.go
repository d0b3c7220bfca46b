package resourcequota

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	ownquota "github.com/gantry-project/gantry/internal/quota"
)

// In is the input of Count: a quota, the stored objects by kind, and the time.
type In struct {
	Quota *corev1.ResourceQuota
	List  func(schema.GroupResource) generic.ListFuncByNamespace
	Now   time.Time
}

// Count returns the quota's status: its limits, and the usage in its namespace. The error joins
// what could not be counted, which keeps its last number; the rest is valid.
func Count(in In) (corev1.ResourceQuotaStatus, error) {
	q := in.Quota
	hard := quota.Add(corev1.ResourceList{}, q.Spec.Hard)
	fresh, err := quota.CalculateUsage(q.Namespace, q.Spec.Scopes, hard, in.registry(), q.Spec.ScopeSelector)
	used := quota.Add(corev1.ResourceList{}, q.Status.Used)
	maps.Copy(used, fresh)
	return corev1.ResourceQuotaStatus{Hard: hard, Used: quota.Mask(used, quota.ResourceNames(hard))}, err
}

// registry returns the evaluators of the kinds that the quota names.
func (in In) registry() quota.Registry {
	evaluators := ownquota.Evaluators(in.List, func() time.Time { return in.Now })
	for _, gr := range Kinds(in.Quota) {
		known := func(e quota.Evaluator) bool { return e.GroupResource() == gr }
		if !slices.ContainsFunc(evaluators, known) {
			evaluators = append(evaluators, generic.NewObjectCountEvaluator(gr, in.List(gr), ""))
		}
	}
	return generic.NewRegistry(evaluators)
}

// Kinds returns the resources whose number a quota limits: those named as count/..., and those with
// an old short name.
func Kinds(q *corev1.ResourceQuota) []schema.GroupResource {
	var out []schema.GroupResource
	for name := range q.Spec.Hard {
		what, counted := strings.CutPrefix(string(name), "count/")
		switch {
		case counted:
			out = append(out, schema.ParseGroupResource(what))
		case slices.Contains(legacyResources(), name):
			out = append(out, schema.GroupResource{Resource: string(name)})
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

func legacyResources() []corev1.ResourceName {
	return []corev1.ResourceName{corev1.ResourceConfigMaps, corev1.ResourceQuotas,
		corev1.ResourceReplicationControllers, corev1.ResourceSecrets}
}

// Uncounted reports whether a quota's spec limits are not those in its status yet: such a quota has
// priority.
func Uncounted(q *corev1.ResourceQuota) bool {
	if !apiequality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) {
		return true
	}
	for name := range q.Spec.Hard {
		if _, ok := q.Status.Used[name]; !ok {
			return true
		}
	}
	return false
}

// Changed reports whether an object may use other amounts than before. Admission counts creations.
func Changed(e quota.Evaluator, old, cur runtime.Object) bool {
	before, err := e.Usage(old)
	if err != nil {
		return true
	}
	after, err := e.Usage(cur)
	if err != nil || !quota.Equals(before, after) {
		return true
	}
	was, isPod := old.(*corev1.Pod)
	is, _ := cur.(*corev1.Pod)
	// The scopes Terminating and NotTerminating depend on the deadline.
	return isPod && is != nil && (was.Spec.ActiveDeadlineSeconds == nil) != (is.Spec.ActiveDeadlineSeconds == nil)
}

// IsLower reports whether less of anything was counted than is written.
func IsLower(written, counted corev1.ResourceQuotaStatus) bool {
	less, _ := quota.LessThanOrEqual(written.Used, counted.Used)
	return !less
}

// Equal reports whether writing the status would change nothing.
func Equal(a, b corev1.ResourceQuotaStatus) bool {
	return a.Hard != nil && b.Hard != nil && a.Used != nil && quota.Equals(a.Hard, b.Hard) && quota.Equals(a.Used,
		b.Used)
}
