package daemonset

import (
	"fmt"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// burst bounds the Pods that one sync creates or deletes.
const burst = 250

// In is the input of Next: a set, all nodes, the Pods it controls, and the hash of its template.
type In struct {
	Set   *appsv1.DaemonSet
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Hash  string
	Now   time.Time
}

// Plan is the outcome of Next.
type Plan struct {
	Create []string      // nodes that lack a Pod
	Delete []*corev1.Pod // surplus, misplaced, or of an old template
	// failed or succeeded: deleted to be replaced, with backoff per node
	Finished []*corev1.Pod
}

// Next plans one step: first the right number of Pods on each node; if that is so, the update to
// the current template.
func Next(in In) Plan {
	var plan Plan
	if in.Set.DeletionTimestamp != nil {
		return plan
	}
	surge, unavailable := in.limits()
	byNode := ByNode(in.Pods)
	known := map[string]bool{}
	for _, n := range in.Nodes {
		known[n.Name] = true
		in.planNode(&plan, n, byNode[n.Name], surge > 0)
	}
	for _, p := range in.Pods {
		if node := TargetNode(p); p.Spec.NodeName == "" && node != "" && !known[node] && p.DeletionTimestamp == nil {
			plan.Delete = append(plan.Delete, p) // it will never be bound
		}
	}
	if len(plan.Create)+len(plan.Delete)+len(plan.Finished) == 0 &&
		in.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
		if surge > 0 {
			in.surgeUpdate(&plan, byNode, surge)
		} else {
			in.rollingUpdate(&plan, byNode, unavailable)
		}
	}
	plan.Create = plan.Create[:min(len(plan.Create), burst)]
	plan.Delete = plan.Delete[:min(len(plan.Delete), burst)]
	return plan
}

// planNode compares the Pods on one node with the wanted ones (upstream: podsShouldBeOnNode).
func (in In) planNode(plan *Plan, n *corev1.Node, pods []*corev1.Pod, surging bool) {
	should, may := NodeShouldRunDaemonPod(in.Set, n)
	switch {
	case should && len(pods) == 0:
		plan.Create = append(plan.Create, n.Name)
	case !may:
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				plan.Delete = append(plan.Delete, p)
			}
		}
	default:
		var live []*corev1.Pod
		for _, p := range pods {
			switch {
			case p.DeletionTimestamp != nil:
			case podutil.IsTerminal(p):
				plan.Finished = append(plan.Finished, p)
			default:
				live = append(live, p)
			}
		}
		in.deleteSurplus(plan, live, surging)
	}
}

// deleteSurplus deletes all but the oldest Pod of a node; with maxSurge an old Pod is kept until
// the new one is available.
func (in In) deleteSurplus(plan *Plan, live []*corev1.Pod, surging bool) {
	if len(live) < 2 {
		return
	}
	oldestFirst(live)
	if !surging {
		plan.Delete = append(plan.Delete, live[1:]...)
		return
	}
	var keepOld, keepNew *corev1.Pod
	for _, p := range live {
		switch {
		case in.updated(p) && keepNew == nil:
			keepNew = p
		case !in.updated(p) && keepOld == nil:
			keepOld = p
		default:
			plan.Delete = append(plan.Delete, p)
		}
	}
	if keepOld != nil && keepNew != nil && in.available(keepNew) {
		plan.Delete = append(plan.Delete, keepOld)
	}
}

// rollingUpdate deletes old Pods: unavailable ones at once, of the others as many as may be
// unavailable.
func (in In) rollingUpdate(plan *Plan, byNode map[string][]*corev1.Pod, most int) {
	toDelete := 0
	var unavailablePods, availablePods []*corev1.Pod
	for _, n := range in.Nodes {
		if should, _ := NodeShouldRunDaemonPod(in.Set, n); !should {
			continue
		}
		was, is := in.oldAndNew(byNode[n.Name])
		switch {
		case (was == nil) == (is == nil):
			toDelete++
		case is != nil:
			if !in.available(is) {
				toDelete++
			}
		case !in.available(was):
			toDelete++
			unavailablePods = append(unavailablePods, was)
		default:
			availablePods = append(availablePods, was)
		}
	}
	plan.Delete = append(plan.Delete, unavailablePods...)
	plan.Delete = append(plan.Delete, availablePods[:min(len(availablePods), max(most-toDelete, 0))]...)
}

// surgeUpdate creates new Pods beside old ones, up to maxSurge; beside unavailable ones at once.
func (in In) surgeUpdate(plan *Plan, byNode map[string][]*corev1.Pod, most int) {
	under := 0
	var unavailablePods, availablePods []string
	for _, n := range in.Nodes {
		if should, _ := NodeShouldRunDaemonPod(in.Set, n); !should {
			continue
		}
		was, is := in.oldAndNew(byNode[n.Name])
		switch {
		case was == nil:
		case is != nil:
			under++ // it is not available: deleteSurplus would have let the old one go
		case !in.available(was):
			unavailablePods = append(unavailablePods, n.Name)
		default:
			availablePods = append(availablePods, n.Name)
		}
	}
	plan.Create = append(plan.Create, unavailablePods...)
	plan.Create = append(plan.Create, availablePods[:min(len(availablePods), max(most-under, 0))]...)
}

func (in In) oldAndNew(pods []*corev1.Pod) (was, is *corev1.Pod) {
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
		case in.updated(p):
			is = p
		default:
			was = p
		}
	}
	return was, is
}

// limits returns maxSurge and maxUnavailable for the nodes that should run a Pod, percentages
// rounded up; if both are 0 one may be unavailable.
func (in In) limits() (surge, unavailable int) {
	wanted := 0
	for _, n := range in.Nodes {
		if should, _ := NodeShouldRunDaemonPod(in.Set, n); should {
			wanted++
		}
	}
	unavailable = 1
	if r := in.Set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(r.MaxSurge, intstr.FromInt32(0)),
			wanted, true); err == nil {
			surge = n
		}
		if n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(r.MaxUnavailable, intstr.FromInt32(1)),
			wanted, true); err == nil {
			unavailable = n
		}
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// NodeShouldRunDaemonPod reports whether a Pod of the set should run on the node, and whether an
// existing one may stay: a NoSchedule taint alone evicts none.
func NodeShouldRunDaemonPod(set *appsv1.DaemonSet, n *corev1.Node) (should, mayStay bool) {
	spec := set.Spec.Template.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		return false, false
	}
	if ok, err := fit.NodeMatches(&corev1.Pod{Spec: spec}, n); err != nil || !ok {
		return false, false
	}
	tolerations := append(append([]corev1.Toleration(nil), spec.Tolerations...), Tolerations(&spec)...)
	if _, reducesAvailability := fit.Untolerated(n.Spec.Taints, tolerations,
		corev1.TaintEffectNoExecute); reducesAvailability {
		return false, false
	}
	_, reducesAvailability := fit.Untolerated(n.Spec.Taints, tolerations, corev1.TaintEffectNoSchedule)
	return !reducesAvailability, true
}

// Tolerations returns the tolerations of every daemon Pod: it stays on nodes that evict others, and
// starts on nodes closed to others.
func Tolerations(spec *corev1.PodSpec) []corev1.Toleration {
	var out []corev1.Toleration
	add := func(key string, effect corev1.TaintEffect) {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
	}
	add(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
	add(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)
	add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	if spec.HostNetwork {
		add(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	}
	return out
}

// TargetNode returns the node that a daemon Pod is bound to, or the one that its affinity names.
func TargetNode(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range t.MatchFields {
			if f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// ByNode groups Pods by TargetNode.
func ByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, p := range pods {
		if n := TargetNode(p); n != "" {
			out[n] = append(out[n], p)
		}
	}
	return out
}

// Status returns the set's status, and the time until a ready Pod becomes available.
func Status(in In, collisions int32) (appsv1.DaemonSetStatus, time.Duration) {
	s := *in.Set.Status.DeepCopy()
	s = appsv1.DaemonSetStatus{ObservedGeneration: in.Set.Generation, Conditions: s.Conditions,
		CollisionCount: s.CollisionCount}
	if collisions > 0 {
		s.CollisionCount = &collisions
	}
	var again time.Duration
	byNode := ByNode(in.Pods)
	for _, n := range in.Nodes {
		should, _ := NodeShouldRunDaemonPod(in.Set, n)
		pods := byNode[n.Name]
		if !should {
			if len(pods) > 0 {
				s.NumberMisscheduled++
			}
			continue
		}
		s.DesiredNumberScheduled++
		if len(pods) == 0 {
			continue
		}
		s.CurrentNumberScheduled++
		oldestFirst(pods)
		p := pods[0]
		if podutil.IsReady(p) {
			s.NumberReady++
			if left := in.untilAvailable(p); left <= 0 {
				s.NumberAvailable++
			} else if again == 0 || left < again {
				again = left
			}
		}
		if in.updated(p) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
	return s, again
}

func oldestFirst(pods []*corev1.Pod) {
	sort.SliceStable(pods, func(i, j int) bool {
		a, b := pods[i], pods[j]
		if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return a.Name < b.Name
		}
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	})
}

// updated reports whether a Pod has the current template: by its hash, or by the generation that
// old clients use.
func (in In) updated(p *corev1.Pod) bool {
	if h := p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; h != "" {
		return h == in.Hash
	}
	g := in.Set.Annotations[appsv1.DeprecatedTemplateGeneration]
	return g != "" && p.Labels[generationLabel] == g
}

// generationLabel is the Pod label with the template's generation.
const generationLabel = "pod-template-generation"

func (in In) available(p *corev1.Pod) bool { return podutil.IsReady(p) && in.untilAvailable(p) <= 0 }

// untilAvailable is the time until a ready Pod becomes available; at most 0 for any other.
func (in In) untilAvailable(p *corev1.Pod) time.Duration {
	if !podutil.IsReady(p) || in.Set.Spec.MinReadySeconds == 0 {
		return 0
	}
	return podutil.UntilAvailable(p, in.Set.Spec.MinReadySeconds, in.Now)
}

// backoffKey returns the backoff key of a set on a node.
func backoffKey(set *appsv1.DaemonSet, p *corev1.Pod) string {
	return fmt.Sprintf("%s/%d/%s", set.UID, set.Generation, TargetNode(p))
}
