package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// surge finds a roll-out whose strategy lets no Pod go before its successor is available, while the
// old Pods have what the new one needs: neither ever moves.
func surge(c *Cluster, o metav1.Object, self Object) []Finding {
	if d, ok := o.(*appsv1.DaemonSet); ok {
		return daemonSetSurge(c, d, self)
	}
	d, ok := o.(*appsv1.Deployment)
	if !ok || d.Spec.Paused || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	want := workload.Replicas(d.Spec.Replicas)
	away, up, may := surgeOf(d, want)
	if away > 0 || up == 0 || want == 0 {
		return nil // up and away of 0 are taken as one away
	}
	sets := owned[*appsv1.ReplicaSet](c, "ReplicaSet", d)
	slices.SortFunc(sets, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revisionOf(b), revisionOf(a)) })
	if len(sets) < 2 {
		return nil
	}
	var older []*corev1.Pod
	for _, s := range sets[1:] {
		older = append(older, owned[*corev1.Pod](c, "Pod", s)...)
	}
	p, old, what := c.keptOut(owned[*corev1.Pod](c, "Pod", sets[0]), older)
	if p == nil {
		return nil
	}
	return []Finding{{Code: "HeldByStrategy", Stage: StageChange, Object: self,
		Field: "spec.strategy.rollingUpdate.maxUnavailable", Value: may, Want: "1",
		Related: []Object{objectOf("Pod", p), objectOf("Pod", old)},
		Numbers: map[string]string{"maxUnavailable": fmt.Sprint(away), "maxSurge": fmt.Sprint(up),
			"replicas": fmt.Sprint(want)},
		Message: fmt.Sprintf("The roll-out of Deployment %s waits for itself: the new Pod %s finds no node "+
			"because %s, and no old one may go before the new one is available (maxUnavailable %s, "+
			"which is %d of %d).", self.Name, p.Name, what, may, away, want),
		Remedies: []Remedy{{Say: "let one Pod be away during a roll-out: the old one then goes first",
			Run: []string{kubectl(self, "patch",
				`--type=merge -p '{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":1}}}}'`)}},
			{Say: "or let all old Pods go first: nothing serves in between",
				Run: []string{kubectl(self, "patch",
					`--type=merge -p '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'`)}}}}}
}

// daemonSetSurge is surge of a DaemonSet: its new Pod comes to the node of the old one.
func daemonSetSurge(c *Cluster, d *appsv1.DaemonSet, self Object) []Finding {
	r := d.Spec.UpdateStrategy.RollingUpdate
	newest := newestRevision(c, d)
	if r == nil || r.MaxSurge == nil || newest == "" {
		return nil
	}
	want := d.Status.DesiredNumberScheduled
	up, words := percent(r.MaxSurge, want, true)
	away, _ := percent(r.MaxUnavailable, want, true)
	if up == 0 || away > 0 {
		return nil
	}
	var of, older []*corev1.Pod
	for _, p := range owned[*corev1.Pod](c, "Pod", d) {
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] == newest {
			of = append(of, p)
		} else {
			older = append(older, p)
		}
	}
	p, old, what := c.keptOut(of, older)
	if p == nil {
		return nil
	}
	return []Finding{{Code: "HeldByStrategy", Stage: StageChange, Object: self,
		Field: "spec.updateStrategy.rollingUpdate.maxSurge", Value: r.MaxSurge.String(), Want: "0",
		Related: []Object{objectOf("Pod", p), objectOf("Pod", old)},
		Numbers: map[string]string{"maxSurge": fmt.Sprint(up), "maxUnavailable": "0", "nodes": fmt.Sprint(want)},
		Message: fmt.Sprintf("The roll-out of DaemonSet %s waits for itself: its new Pod %s has no place beside the "+
			"old one because %s, and the old one may not go before the new one is available (maxSurge %s, "+
			"maxUnavailable 0).", self.Name, p.Name, what, words),
		Remedies: []Remedy{{Say: "let the old Pod of a node go first: maxUnavailable 1 instead of maxSurge",
			Run: []string{kubectl(self, "patch", `--type=merge -p '{"spec":{"updateStrategy":{"rollingUpdate":`+
				`{"maxSurge":0,"maxUnavailable":1}}}}'`)}}}}}
}

// keptOut finds a new Pod that has no place because an old one, which does not go, has what it
// needs; nil when there is none.
func (c *Cluster) keptOut(of, older []*corev1.Pod) (p, old *corev1.Pod, what string) {
	if slices.ContainsFunc(older, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
		return nil, nil, "" // room comes when it has ended
	}
	for _, p := range of {
		if p.Spec.NodeName != "" || !unschedulable(p) {
			continue
		}
		for _, old := range older {
			if old.Spec.NodeName == "" || pod.IsTerminal(old) {
				continue
			}
			if what := keepsOut(old, p); what != "" {
				return p, old, what + c.andOthers(p, old, older)
			}
		}
	}
	return nil, nil, ""
}

// andOthers counts the further old Pods that keep a new one out, and their nodes.
func (c *Cluster) andOthers(p, old *corev1.Pod, older []*corev1.Pod) string {
	nodes := []string{old.Spec.NodeName}
	n := 0
	for _, x := range older {
		if x.Name == old.Name || x.Spec.NodeName == "" || pod.IsTerminal(x) || keepsOut(x, p) == "" {
			continue
		}
		n++
		if !slices.Contains(nodes, x.Spec.NodeName) {
			nodes = append(nodes, x.Spec.NodeName)
		}
	}
	if n == 0 {
		return ""
	}
	slices.Sort(nodes)
	if len(nodes) > mostNear {
		return fmt.Sprintf(", and so do %d further old ones, on %d nodes in all", n, len(nodes))
	}
	return fmt.Sprintf(", and so do %d further old ones, on %s in all", n, joined(nodes))
}

// surgeOf are how many Pods a strategy lets be away and be too many, and its words for the first.
func surgeOf(d *appsv1.Deployment, want int32) (away, up int, may string) {
	a, s := intstr.FromString("25%"), intstr.FromString("25%")
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxUnavailable != nil {
			a = *r.MaxUnavailable
		}
		if r.MaxSurge != nil {
			s = *r.MaxSurge
		}
	}
	away, _ = percent(&a, want, false)
	up, _ = percent(&s, want, true)
	return away, up, a.String()
}

// revisionOf is the number of a Deployment's ReplicaSet, 0 where it says none.
func revisionOf(s *appsv1.ReplicaSet) int {
	n, err := strconv.Atoi(s.Annotations["deployment.kubernetes.io/revision"])
	if err != nil {
		return 0
	}
	return n
}

// unschedulable reports whether the scheduler found no node for a Pod.
func unschedulable(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
		return x.Type == corev1.PodScheduled && x.Status == corev1.ConditionFalse &&
			x.Reason == corev1.PodReasonUnschedulable
	})
}

// keepsOut says what an old Pod has that a new one needs; empty: nothing that is known.
func keepsOut(old, p *corev1.Pod) string {
	if port, taken := fit.PortConflict(pod.HostPorts(p), pod.HostPorts(old)); taken {
		return fmt.Sprintf("Pod %s has host port %d", old.Name, port.HostPort)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			s, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
			if err == nil && len(t.Namespaces) == 0 && t.NamespaceSelector == nil && s.Matches(labels.Set(old.Labels)) {
				return fmt.Sprintf("its anti-affinity (%s, one per %s) keeps it from Pod %s",
					metav1.FormatLabelSelector(t.LabelSelector), t.TopologyKey, old.Name)
			}
		}
	}
	mine, theirs := pod.Requests(p), pod.Requests(old)
	for name, q := range mine {
		if has := theirs[name]; q.Sign() > 0 && has.Cmp(q) >= 0 && lacks(p, string(name)) {
			return fmt.Sprintf("Pod %s has the %s of %s that it needs", old.Name, q.String(), name)
		}
	}
	return ""
}
