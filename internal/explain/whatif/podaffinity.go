package whatif

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// maxCompetitors bounds the Pods that a remedy deletes because of anti-affinity.
const maxCompetitors = 3

// removePods deletes the Pods in the node's domains that conflict with the Pod by anti-affinity, in
// either direction.
func removePods(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	own, err := snapshot.NewPodInfo(st.pod)
	if n == nil || err != nil {
		return nil
	}
	var rivals []*v1.Pod
	for _, other := range st.snapshot.All() {
		for _, info := range other.GetPods() {
			if antiAffinityConflict(own, info.GetPod(), n, other) || antiAffinityConflict(info, st.pod, n, other) {
				rivals = append(rivals, info.GetPod())
			}
		}
	}
	if len(rivals) == 0 || len(rivals) > maxCompetitors {
		return nil
	}
	return []change{deletePods(r.Node, rivals...)}
}

// antiAffinityConflict reports whether a term of p's required anti-affinity selects q, and both
// nodes are in the same domain. Namespaces' labels are not known here: a term with a
// namespaceSelector may select any, and the plugins decide.
func antiAffinityConflict(p framework.PodInfo, q *v1.Pod, a, b framework.NodeInfo) bool {
	return slices.ContainsFunc(p.GetRequiredAntiAffinityTerms(), func(t framework.AffinityTerm) bool {
		x, has := a.Node().Labels[t.TopologyKey]
		y, other := b.Node().Labels[t.TopologyKey]
		selects := false
		if t.NamespaceSelector != nil {
			_, selects = t.NamespaceSelector.Requirements()
		}
		return has && other && x == y && (selects || t.Namespaces.Has(q.Namespace)) && t.Selector.Matches(
			labels.Set(q.Labels))
	})
}

// OtherNamespaces are namespaces with Pods that a required Pod affinity term selects but does not
// cover.
type OtherNamespaces struct {
	Term            int // index of the required term
	Selector        string
	Searched, Found []string // namespaces
	Pods            []string // the first few Pods found, with their namespaces
}

// PodsInOtherNamespaces returns such namespaces for terms without namespaceSelector.
func PodsInOtherNamespaces(p *v1.Pod, pods []*v1.Pod) []OtherNamespaces {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return nil
	}
	var out []OtherNamespaces
	for i, t := range p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		s, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		if err != nil || t.LabelSelector == nil || t.NamespaceSelector != nil {
			continue
		}
		a := OtherNamespaces{Term: i, Selector: metav1.FormatLabelSelector(t.LabelSelector), Searched: t.Namespaces}
		if len(a.Searched) == 0 {
			a.Searched = []string{p.Namespace}
		}
		found := false
		for _, other := range pods {
			switch {
			case other.Spec.NodeName == "" || !s.Matches(labels.Set(other.Labels)):
			case slices.Contains(a.Searched, other.Namespace):
				found = true
			default:
				if !slices.Contains(a.Found, other.Namespace) {
					a.Found = append(a.Found, other.Namespace)
				}
				if len(a.Pods) < maxCompetitors {
					a.Pods = append(a.Pods, other.Namespace+"/"+other.Name)
				}
			}
		}
		if !found && len(a.Found) > 0 {
			slices.Sort(a.Found)
			out = append(out, a)
		}
	}
	return out
}

// reachNamespaces adds the Pods' namespaces to the Pod affinity term.
func reachNamespaces(st searchState, _ journal.NodeRefusal) []change {
	var pods []*v1.Pod
	for _, n := range st.snapshot.All() {
		for _, info := range n.GetPods() {
			pods = append(pods, info.GetPod())
		}
	}
	var out []change
	for _, a := range PodsInOtherNamespaces(st.pod, pods) {
		for _, ns := range a.Found {
			out = append(out,
				change{kind: "affinity",
					description: fmt.Sprintf("let the Pod affinity to %s look in namespace %s too (namespaces: [%s])",
						a.Selector, ns, strings.Join(append(slices.Clone(a.Searched), ns), ", ")), cost: 1,
					pod: func(p *v1.Pod) {
						t := &p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[a.Term]
						t.Namespaces = append(slices.Clone(a.Searched), ns)
					}})
		}
	}
	return out
}
