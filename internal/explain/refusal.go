package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

func amount(name string, n int64) string { return whatif.Amount(name, n) }

// refusalText describes one node's refusal with its numbers.
func refusalText(r journal.NodeRefusal, in In) string {
	if len(r.Shortages) > 0 {
		parts := make([]string, len(r.Shortages))
		for i, x := range r.Shortages {
			parts[i] = shortfall(x) + alike(in.ClusterContext.node(r.Node), x)
		}
		return r.Node + " " + strings.Join(parts, " and ")
	}
	if n := in.ClusterContext.node(r.Node); n != nil && r.Plugin == "TaintToleration" {
		var taints []string
		for _, t := range n.Spec.Taints {
			if t.Effect != corev1.TaintEffectPreferNoSchedule && strings.Contains(strings.Join(r.Messages,
				" ")+r.Detail, t.Key) {
				text := whatif.Taint(t)
				if m, ok := whatif.ManagedTaintOf(t.Key); ok {
					text += " (as " + m.Since + ")"
				}
				taints = append(taints, text)
			}
		}
		if len(taints) > 0 {
			return fmt.Sprintf("%s has the taint %s that the Pod does not tolerate", r.Node,
				strings.Join(taints, " and ")) + taintReasons(n)
		}
	}
	s := r.Node + ": " + strings.Join(r.Messages, ", ")
	if r.Detail != "" {
		s += " (" + r.Detail + ")"
	}
	return s + deprecatedLabel(r, in)
}

func shortfall(x journal.Shortage) string {
	free := max(x.Available-x.Used, 0)
	switch {
	case x.Resource == string(corev1.ResourcePods):
		return fmt.Sprintf("takes %d pods and has %d already", x.Available, x.Used)
	case x.Available == 0:
		return fmt.Sprintf("does not offer %s (%s wanted)", x.Resource, amount(x.Resource, x.Requested))
	}
	return fmt.Sprintf("is %s short of %s (%s free of %s, %s wanted)", amount(x.Resource, x.Requested-free), x.Resource,
		amount(x.Resource, free), amount(x.Resource, x.Available), amount(x.Resource, x.Requested))
}

// alike says what a node that does not offer a resource has of the same domain, such as huge pages
// of another size; empty where it has none.
func alike(n *corev1.Node, x journal.Shortage) string {
	domain, _, qualified := strings.Cut(x.Resource, "/")
	if strings.HasPrefix(x.Resource, corev1.ResourceHugePagesPrefix) {
		domain, qualified = corev1.ResourceHugePagesPrefix, true
	} else {
		domain += "/"
	}
	if n == nil || x.Available != 0 || !qualified {
		return ""
	}
	var have []string
	for name, q := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), domain) && string(name) != x.Resource && !q.IsZero() {
			have = append(have, q.String()+" of "+string(name))
		}
	}
	slices.Sort(have)
	if len(have) == 0 {
		return ""
	}
	return ", it has " + joinList(have) + ", which is another resource"
}

// deprecatedLabel mentions a node that lacks a label but has its deprecated name.
func deprecatedLabel(r journal.NodeRefusal, in In) string {
	n := in.ClusterContext.node(r.Node)
	if n == nil {
		return ""
	}
	for _, c := range in.Pod.Spec.TopologySpreadConstraints {
		_, has := n.Labels[c.TopologyKey]
		former := whatif.DeprecatedLabel(c.TopologyKey)
		if v, old := n.Labels[former]; !has && old && strings.Contains(r.Detail, c.TopologyKey) {
			return fmt.Sprintf("; it has only the old label %s=%s", former, v)
		}
	}
	return ""
}

// resourceMissing mentions a resource that no node has, and a similar one of another vendor.
func resourceMissing(refusals []journal.NodeRefusal, in In) string {
	if in.ClusterContext == nil || len(in.ClusterContext.Nodes) == 0 {
		return ""
	}
	for _, r := range refusals {
		for _, x := range r.Shortages {
			if x.Available != 0 || x.Resource == string(corev1.ResourcePods) {
				continue
			}
			has := func(n *corev1.Node) bool {
				q, ok := n.Status.Allocatable[corev1.ResourceName(x.Resource)]
				return ok && !q.IsZero()
			}
			if slices.ContainsFunc(in.ClusterContext.Nodes, has) {
				continue
			}
			s := fmt.Sprintf("The Pod asks for %s: %s, and no node offers that resource.", x.Resource,
				amount(x.Resource, x.Requested))
			return s + similarResources(x.Resource, in.ClusterContext.Nodes)
		}
	}
	return ""
}

// withoutResource are what helps a Pod that asks for huge pages which no node offers: to do without
// them, or to reserve as many on a node.
func withoutResource(in In, refusals []journal.NodeRefusal) []Fix {
	for _, r := range refusals {
		for _, x := range r.Shortages {
			size, huge := strings.CutPrefix(x.Resource, corev1.ResourceHugePagesPrefix)
			page, err := resource.ParseQuantity(size)
			if !huge || x.Available != 0 || err != nil || page.Value() == 0 {
				continue
			}
			name := corev1.ResourceName(x.Resource)
			return []Fix{
				editedPodFix(in, fmt.Sprintf("do without %s, where the program can: it then gets pages of the "+
					"usual size",
					x.Resource), func(s *corev1.PodSpec) {
					for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
						for i := range list {
							delete(list[i].Resources.Requests, name)
							delete(list[i].Resources.Limits, name)
						}
					}
				}),
				{Description: fmt.Sprintf("or reserve %d pages of %s on node %s, for instance with hugepagesz=%s "+
					"hugepages=%d at its start or in nr_hugepages below /sys/kernel/mm/hugepages, and start its "+
					"kubelet anew", (x.Requested+page.Value()-1)/page.Value(), size, r.Node,
					strings.TrimSuffix(size, "i"),
					(x.Requested+page.Value()-1)/page.Value())}}
		}
	}
	return nil
}

// similarResources lists resources with the same last part of the name.
func similarResources(resource string, nodes []*corev1.Node) string {
	_, last, ok := strings.Cut(resource, "/")
	if !ok {
		return ""
	}
	var have []string
	for _, n := range nodes {
		for _, name := range slices.Sorted(maps.Keys(n.Status.Allocatable)) {
			if _, l, ok := strings.Cut(string(name), "/"); ok && l == last && string(name) != resource {
				q := n.Status.Allocatable[name]
				have = append(have, fmt.Sprintf("%s offers %s of %s", n.Name, q.String(), name))
			}
		}
	}
	if len(have) == 0 {
		return ""
	}
	if len(have) > 3 {
		have = append(have[:3], "…")
	}
	return " " + strings.Join(have, ", ") + "."
}

// spreadDomains describes, for topology spread constraints that refuse nodes, the Pods per domain
// and the domains that are left.
func spreadDomains(refusals []journal.NodeRefusal, in In) string {
	if in.ClusterContext == nil || !slices.ContainsFunc(refusals,
		func(r journal.NodeRefusal) bool { return r.Plugin == "PodTopologySpread" }) {
		return ""
	}
	snap := in.whatifInput().Snapshot
	var out []string
	for _, c := range in.Pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		counts := whatif.Domains(in.Pod, c, snap)
		if len(counts) == 0 || len(counts) == 1 && c.MinDomains == nil {
			continue
		}
		least := whatif.MinDomainCount(c, counts)
		var standing, open []string
		for _, d := range slices.Sorted(maps.Keys(counts)) {
			standing = append(standing, fmt.Sprintf("%s %d", d, counts[d]))
			if counts[d]+1-least <= int(c.MaxSkew) {
				open = append(open, d)
			}
		}
		if len(open) == len(counts) {
			continue
		}
		few := ""
		if c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
			few = fmt.Sprintf("minDomains %d, but there are only %d, so the skew is counted from 0; ", *c.MinDomains,
				len(counts))
		}
		left := "leaves only " + strings.Join(open, ", ")
		if len(open) == 0 {
			left = "leaves none of them"
		}
		out = append(out,
			fmt.Sprintf("The spread over %s (maxSkew %d, %smatching Pods now: %s; one more elsewhere would be a skew "+
				"of %d) %s.",
				c.TopologyKey, c.MaxSkew, few, strings.Join(standing, ", "), counts[mostFrequent(counts)]+1-least,
				left))
	}
	return strings.Join(out, " ")
}

func mostFrequent(counts map[string]int) string {
	best := ""
	for d, n := range counts {
		if best == "" || n > counts[best] {
			best = d
		}
	}
	return best
}

// podsInOtherNamespaces mentions Pods that a required Pod affinity selects but that are in a
// namespace it does not cover.
func podsInOtherNamespaces(refusals []journal.NodeRefusal, in In) string {
	if in.ClusterContext == nil || !slices.ContainsFunc(refusals,
		func(r journal.NodeRefusal) bool { return r.Plugin == "InterPodAffinity" }) {
		return ""
	}
	var out []string
	for _, a := range whatif.PodsInOtherNamespaces(in.Pod, in.ClusterContext.Pods) {
		out = append(out,
			fmt.Sprintf(" The required Pod affinity looks for %s in namespace %s, and there is none; such Pods are "+
				"in namespace %s (%s).", a.Selector, strings.Join(a.Searched, ", "), strings.Join(a.Found, ", "),
				strings.Join(a.Pods, ", ")))
	}
	return strings.Join(out, "")
}

// misspeltLabel mentions a Pod that a required Pod affinity may mean: no Pod has the selected
// label, and this one's is similar.
func misspeltLabel(refusals []journal.NodeRefusal, in In) string {
	a := in.Pod.Spec.Affinity
	if in.ClusterContext == nil || a == nil || a.PodAffinity == nil || !slices.ContainsFunc(refusals,
		func(r journal.NodeRefusal) bool { return r.Plugin == "InterPodAffinity" }) {
		return ""
	}
	var out []string
	for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if t.LabelSelector == nil || t.NamespaceSelector != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(t.LabelSelector.MatchLabels)) {
			wanted := t.LabelSelector.MatchLabels[key]
			who, value := nearestLabel(in.ClusterContext.Pods, key, wanted, func(p *corev1.Pod) bool {
				return p.Namespace == in.Pod.Namespace && len(t.Namespaces) == 0 || slices.Contains(t.Namespaces,
					p.Namespace)
			})
			if who != "" {
				out = append(out, fmt.Sprintf(" Pod %s is labelled %s=%s, not %s=%s: perhaps that was meant.", who, key,
					value, key, wanted))
			}
		}
	}
	return strings.Join(out, "")
}

// nearestLabel returns the placed Pod whose value of a label is most similar to wanted; empty if a
// Pod has wanted, or none a similar one.
func nearestLabel(pods []*corev1.Pod, key, wanted string, among func(*corev1.Pod) bool) (who, value string) {
	has := map[string]string{}
	for _, p := range pods {
		if v, ok := p.Labels[key]; ok && p.Spec.NodeName != "" && among(p) && (has[v] == "" || p.Name < has[v]) {
			has[v] = p.Name
		}
	}
	if has[wanted] != "" {
		return "", ""
	}
	values := slices.Sorted(maps.Keys(has))
	value = nearestName(wanted, values)
	if i := slices.IndexFunc(values, func(v string) bool { return haveSameStem(wanted, v) }); value == "" && i >= 0 {
		value = values[i]
	}
	return has[value], value
}

// haveSameStem reports whether two words begin alike and differ in their endings, as cache and
// caching.
func haveSameStem(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n >= 3 && n >= min(len(a), len(b))-1
}
