package podgroupprotection

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/pod"
)

// Finalizer keeps a PodGroup while Pods of it run.
const Finalizer = "scheduling.k8s.io/podgroup-protection"

// GroupOf returns the key of the PodGroup of which a Pod is an active member; "" if it has ended or
// is in none.
func GroupOf(p *v1.Pod) string {
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && !pod.IsTerminal(p) {
		return p.Namespace + "/" + *g.PodGroupName
	}
	return ""
}

// LeftGroups returns the PodGroup that a change of a Pod leaves with a member less. The change may
// be the deletion of one Pod and the creation of another of its name.
func LeftGroups(old, cur runtime.Object) []string {
	was, _ := old.(*v1.Pod)
	if was == nil || GroupOf(was) == "" {
		return nil
	}
	if is, _ := cur.(*v1.Pod); is != nil && is.UID == was.UID && GroupOf(is) == GroupOf(was) {
		return nil
	}
	return []string{GroupOf(was)}
}

// WithoutFinalizer returns the PodGroup without the finalizer; nil if it is not being deleted or
// has none.
func WithoutFinalizer(g *schedulingv1beta1.PodGroup) *schedulingv1beta1.PodGroup {
	i := slices.Index(g.Finalizers, Finalizer)
	if g.DeletionTimestamp == nil || i < 0 {
		return nil
	}
	g = g.DeepCopy()
	g.Finalizers = slices.Delete(g.Finalizers, i, i+1)
	return g
}
