package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// noNodeFits begins the cause of a Pod that every node refuses.
const noNodeFits = "No node fits."

// chosen splits refusals into those of nodes that the Pod's own nodeSelector and required node
// affinity choose, and the rest. Where these choose none, or the nodes are not known, all are
// chosen.
func (in In) chosen(refusals []journal.NodeRefusal) (chosen, rest []journal.NodeRefusal) {
	for _, r := range refusals {
		n := in.ClusterContext.node(r.Node)
		if n == nil {
			return refusals, nil
		}
		if ok, err := fit.NodeMatches(in.Pod, n); ok && err == nil {
			chosen = append(chosen, r)
		} else {
			rest = append(rest, r)
		}
	}
	if len(chosen) == 0 {
		return refusals, nil
	}
	return chosen, rest
}

// noNodeText returns a few sentences about why no node fits: what no node offers, what constraints
// leave, and the closest nodes with numbers. Of nodes that the Pod itself does not choose it only
// says how many there are.
func noNodeText(all []journal.NodeRefusal, in In) string {
	if s := resourceMissing(all, in); s != "" {
		return s
	}
	out := []string{noNodeFits}
	output := spreadDomains(all, in)
	if output != "" {
		out = append(out, output)
	}
	refusals, rest := in.chosen(all)
	groups := map[string][]journal.NodeRefusal{}
	var order []string
	spoken := 0
	for _, r := range refusals {
		if output != "" && r.Plugin == "PodTopologySpread" {
			continue // spreadDomains covers it
		}
		short := len(r.Shortages) > 0
		if len(refusals) > maxRefusalsShown && (!short || spoken == maxRefusalsShown) {
			key := groupText(r, in)
			if len(groups[key]) == 0 {
				order = append(order, key)
			}
			groups[key] = append(groups[key], r)
			continue
		}
		spoken++
		out = append(out, refusalText(r, in)+"."+selectorText(r, in))
	}
	for _, key := range order {
		out = append(out, groupsText(groups[key], key, in))
	}
	if len(rest) > 0 {
		out = append(out, excludedByPodText(len(rest), in))
	}
	return strings.Join(out, " ") + podsInOtherNamespaces(all, in) + misspeltLabel(all, in)
}

// selectorText is a sentence, with a space before it, about the expression of a claim or of its
// class that devices do not meet.
func selectorText(r journal.NodeRefusal, in In) string {
	judge := refusalFields[r.Plugin]
	if judge == nil {
		return ""
	}
	j := judge(in, r)
	if !strings.HasSuffix(j.field, "cel.expression") || j.object.Name == "" {
		return ""
	}
	text := fmt.Sprintf(" %s %s demands %s (%s)", j.object.Kind, j.object.Name, j.value, j.field)
	var have []string
	for device, value := range whatDevicesHave(in, r.Node, j.value) {
		have = append(have, device+" "+value)
	}
	if len(have) > 0 {
		slices.Sort(have)
		text += fmt.Sprintf("; the devices of %s have %s", r.Node, joinList(have))
	}
	return text + "."
}

// groupText is what nodes have in common that refuse the Pod for the same.
func groupText(r journal.NodeRefusal, in In) string {
	if text, ok := strings.CutPrefix(refusalText(r, in), r.Node+" has the taint "); ok {
		return "have the taint " + text
	}
	return strings.Join(r.Messages, ", ")
}

// groupsText names the nodes of a group; of one alone it says all that is known.
func groupsText(g []journal.NodeRefusal, key string, in In) string {
	if len(g) == 1 {
		return refusalText(g[0], in) + "."
	}
	var names []string
	for _, r := range g[:min(len(g), 3)] {
		names = append(names, r.Node)
	}
	if len(g) > 3 {
		names = append(names, "…")
	}
	if strings.HasPrefix(key, "have the taint") {
		return fmt.Sprintf("%d nodes %s (%s).", len(g), key, strings.Join(names, ", "))
	}
	return fmt.Sprintf("%d nodes: %s (%s).", len(g), key, strings.Join(names, ", "))
}

// excludedByPodText says that the Pod itself leaves nodes out, and by what.
func excludedByPodText(n int, in In) string {
	by := "its required node affinity"
	if s := in.Pod.Spec.NodeSelector; len(s) > 0 {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(s)) {
			parts = append(parts, k+"="+s[k])
		}
		by = "its nodeSelector " + strings.Join(parts, ",") + selectorOfClass(in)
		if len(whatif.RequiredTerms(in.Pod)) > 0 {
			by += " and its required node affinity"
		}
	}
	if n == 1 {
		return fmt.Sprintf("The other node is ruled out by %s.", by)
	}
	return fmt.Sprintf("The other %d nodes are ruled out by %s.", n, by)
}

// selectorOfClass says, with a space before it, that a Pod's RuntimeClass gave it node selectors.
func selectorOfClass(in In) string {
	name := in.Pod.Spec.RuntimeClassName
	if name == nil || in.Objects == nil {
		return ""
	}
	x, ok := in.Objects.Get(finding.Object{Kind: "RuntimeClass", Name: *name}).(*nodev1.RuntimeClass)
	if !ok || x.Scheduling == nil || len(x.Scheduling.NodeSelector) == 0 {
		return ""
	}
	return fmt.Sprintf(" (RuntimeClass %s gave it %s)", x.Name,
		labels.Set(x.Scheduling.NodeSelector).String())
}

// managedTaintFixes are what helps where a component's taint, or one of a node's condition, keeps
// the Pod from a node that it chooses itself.
func (in In) managedTaintFixes(refusals []journal.NodeRefusal) []Fix {
	chosen, rest := in.chosen(refusals)
	if len(rest) == 0 {
		return nil
	}
	var out []Fix
	for _, r := range chosen {
		for _, f := range nodeRefuses(in, r) {
			if r.Plugin == "TaintToleration" && f.Severity != finding.Note {
				out = append(out, remedies(f.Remedies)...)
			}
		}
	}
	return withoutDoubles(out)
}
