package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// whyChosen explains why a node was chosen before the runner-up: the scores that differ, and their
// inputs.
func whyChosen(in In, r journal.Ruled) string {
	first, second := nodeScore(r, r.Winner), nodeScore(r, r.RunnerUp)
	if first == nil || second == nil || len(first.Parts) != len(second.Parts) {
		return ""
	}
	if first.Total == second.Total {
		return fmt.Sprintf("%s was chosen by lot: it shares the top score of %d with %s.", first.Node, first.Total,
			nodesWithScore(r, first.Total, first.Node))
	}
	var pro, contra []string
	for i, p := range first.Parts {
		q := second.Parts[i]
		switch {
		case p.Weighted > q.Weighted:
			pro = append(pro, fmt.Sprintf("%s %d against %d%s", p.Plugin, p.Weighted, q.Weighted,
				scoreInputs(in, p.Plugin, first.Node, second.Node)))
		case p.Weighted < q.Weighted:
			contra = append(contra, fmt.Sprintf("%s %d against %d%s", p.Plugin, q.Weighted, p.Weighted,
				scoreInputs(in, p.Plugin, second.Node, first.Node)))
		}
	}
	s := fmt.Sprintf("%s won %d to %d over %s by %s.", first.Node, first.Total, second.Total, second.Node,
		strings.Join(pro, " and "))
	if len(contra) > 0 {
		s += fmt.Sprintf(" That outweighs what spoke for %s: %s.", second.Node, strings.Join(contra, " and "))
	}
	return s
}

// nodesNotScored names the nodes that were not evaluated because enough others fit.
func nodesNotScored(r journal.Ruled) []string {
	if len(r.LeftOut) == 0 {
		return nil
	}
	names := strings.Join(r.LeftOut, ", ")
	if n := r.Left - len(r.LeftOut); n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return []string{
		fmt.Sprintf("%d of %d nodes were visited: enough of them fit for the percentageOfNodesToScore in force; not "+
			"visited, though a better one may be among them: %s", r.Visited, r.Visited+r.Left, names)}
}

func nodeScore(r journal.Ruled, node string) *journal.NodeScore {
	for i := range r.Scores {
		if r.Scores[i].Node == node {
			return &r.Scores[i]
		}
	}
	return nil
}

func nodesWithScore(r journal.Ruled, total int64, but string) string {
	var out []string
	for _, s := range r.Scores {
		if s.Total == total && s.Node != but {
			out = append(out, s.Node)
		}
	}
	if len(out) > 3 {
		return fmt.Sprintf("%d others", len(out))
	}
	return strings.Join(out, ", ")
}

// scoreInputs returns the numbers behind a plugin's score, if known: utilization of cpu and memory,
// or the image.
func scoreInputs(in In, plugin, node, other string) string {
	switch plugin {
	case "NodeResourcesBalancedAllocation", "NodeResourcesFit":
		a, b := utilizationText(in, node), utilizationText(in, other)
		if a == "" || b == "" {
			return ""
		}
		return fmt.Sprintf(" (cpu/memory requested on %s %s, on %s %s)", node, a, other, b)
	case "ImageLocality":
		if s := imagesOnNode(in, node); s != "" {
			return fmt.Sprintf(" (%s already holds %s)", node, s)
		}
	case "TaintToleration":
		if s := softTaints(in, other); s != "" {
			return fmt.Sprintf(" (%s has %s, not tolerated)", other, s)
		}
	case "NodeAffinity":
		if s := preferredTerms(in, node, other); s != "" {
			return fmt.Sprintf(" (%s meets %s)", node, s)
		}
	}
	return ""
}

// softTaints are the taints of a node that only make it less liked, and that the Pod does not
// tolerate.
func softTaints(in In, node string) string {
	n := in.ClusterContext.node(node)
	if n == nil {
		return ""
	}
	var out []string
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !fit.Tolerates(in.Pod.Spec.Tolerations, t) {
			out = append(out, "the taint "+t.ToString())
		}
	}
	return strings.Join(out, " and ")
}

// preferredTerms are the terms of the Pod's preferred node affinity, with their weights, that one
// node meets and another does not.
func preferredTerms(in In, node, other string) string {
	n, m := in.ClusterContext.node(node), in.ClusterContext.node(other)
	if a := in.Pod.Spec.Affinity; n == nil || m == nil || a == nil || a.NodeAffinity == nil {
		return ""
	}
	var out []string
	for i, t := range in.Pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		p := in.Pod.DeepCopy()
		p.Spec.NodeSelector = nil
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{t.Preference}}}}
		meets, err := fit.NodeMatches(p, n)
		if not, failed := fit.NodeMatches(p, m); err == nil && failed == nil && meets && !not {
			out = append(out, fmt.Sprintf("preferred term %d of weight %d: %s", i, t.Weight, termText(t.Preference)))
		}
	}
	return strings.Join(out, " and ")
}

// termText writes a term of node affinity.
func termText(t corev1.NodeSelectorTerm) string {
	var out []string
	for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
	}
	return strings.Join(out, ", ")
}

// utilizationText formats a node's utilization without and with the Pod: "30/60 % -> 60/65 %".
func utilizationText(in In, node string) string {
	n := in.ClusterContext.node(node)
	if n == nil {
		return ""
	}
	var before, after [2]int64
	names := [2]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
	for i, name := range names {
		all := n.Status.Allocatable[name]
		if all.IsZero() {
			return ""
		}
		var used int64
		for _, p := range in.ClusterContext.podsOn(node) {
			if p.UID != in.Pod.UID && !pod.IsTerminal(p) {
				used += milli(pod.Requests(p), name)
			}
		}
		before[i] = 100 * used / all.MilliValue()
		after[i] = 100 * (used + milli(pod.Requests(in.Pod), name)) / all.MilliValue()
	}
	return fmt.Sprintf("%d/%d %% -> %d/%d %%", before[0], before[1], after[0], after[1])
}

func milli(l corev1.ResourceList, name corev1.ResourceName) int64 {
	q := l[name]
	return q.MilliValue()
}

// imagesOnNode names the Pod's images that a node has, with sizes.
func imagesOnNode(in In, node string) string {
	n := in.ClusterContext.node(node)
	if n == nil {
		return ""
	}
	var out []string
	for _, c := range in.Pod.Spec.Containers {
		for _, i := range n.Status.Images {
			if slices.Contains(i.Names, c.Image) {
				out = append(out, fmt.Sprintf("the image %s, %s", c.Image, journal.Size(i.SizeBytes)))
			}
		}
	}
	return strings.Join(out, ", ")
}

// weightFixes returns changes of plugin weights with which the runner-up would have won, the
// smallest first.
func weightFixes(in In, r journal.Ruled) []Fix {
	first, second := nodeScore(r, r.Winner), nodeScore(r, r.RunnerUp)
	if first == nil || second == nil || first.Total <= second.Total || len(first.Parts) != len(second.Parts) {
		return nil
	}
	lead := first.Total - second.Total
	type weightChange struct {
		to  int64
		fix Fix
	}
	var all []weightChange
	for i, p := range first.Parts {
		q := second.Parts[i]
		switch gain := q.Norm - p.Norm; {
		case gain > 0:
			to := p.Weight + lead/gain + 1
			all = append(all,
				weightChange{to - p.Weight,
					profileFix(in, "enabled", fmt.Sprintf("{name: %s, weight: %d}", p.Plugin, to),
						fmt.Sprintf("for %s to win: give %s weight %d instead of %d in the scheduler's configuration "+
							"(%s %d, %s %d)", second.Node, p.Plugin, to, p.Weight,
							second.Node, second.Total+(to-p.Weight)*q.Norm, first.Node,
							first.Total+(to-p.Weight)*p.Norm))})
		case p.Weighted-q.Weighted > lead:
			all = append(all,
				weightChange{100, profileFix(in, "disabled", fmt.Sprintf("{name: %s}", p.Plugin),
					fmt.Sprintf("for %s to win: disable %s for scoring (%s %d, %s %d)", second.Node, p.Plugin,
						second.Node, second.Total-q.Weighted, first.Node, first.Total-p.Weighted))})
		}
	}
	slices.SortStableFunc(all, func(a, b weightChange) int { return cmp.Compare(a.to, b.to) })
	var out []Fix
	for _, t := range all {
		out = append(out, t.fix)
	}
	return out
}

// profileFix returns a change of the profile's score plugins, after which the Pod is recreated.
func profileFix(in In, list, item, say string) Fix {
	return Fix{Description: say + ", and make the Pod anew",
		Config: fmt.Sprintf(
			"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- "+
				"schedulerName: %s\n  plugins:\n    score:\n      %s:\n      - %s", in.Pod.Spec.SchedulerName, list,
			item),
		Run: []string{
			fmt.Sprintf(
				`kubectl -n %s get pod %s -o json | kubectl patch --local -f - --type=merge -p `+
					`'{"spec":{"nodeName":null}}' -o json | kubectl replace --force -f -`, in.Ref.Namespace,
				in.Ref.Name)}}
}
