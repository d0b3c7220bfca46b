package explain

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// maxMembers bounds the members of a group whose own troubles are looked for.
const maxMembers = 16

// of is what is known around the Pod, as seen from another.
func (in In) of(p *corev1.Pod) In {
	return In{Now: in.Now, Ref: journal.Ref{Namespace: p.Namespace, Name: p.Name}, Pod: p,
		ClusterContext: in.ClusterContext, NamespaceContext: in.NamespaceContext, Objects: in.Objects,
		NoJournal: in.NoJournal}
}

// heldMembers are what keeps other members of a gang from a node: what holds one of them holds all.
func heldMembers(in In, members []*corev1.Pod) []finding.Finding {
	var out []finding.Finding
	for _, p := range members[:min(len(members), maxMembers)] {
		if p.UID == in.Pod.UID && p.Name == in.Pod.Name || p.Spec.NodeName != "" {
			continue
		}
		m := in.of(p)
		list := gateFindings(m)
		if in.Objects != nil {
			list = append(list, finding.Of(in.Objects, m.object())...)
		}
		out = append(out, slices.DeleteFunc(list, func(f finding.Finding) bool {
			return f.Severity != finding.Broken || f.Object.Kind == "PodGroup" || f.Object.Kind == "Lease"
		})...)
	}
	return out
}

// withoutRoom is that of a gang only some members can be placed at once.
func withoutRoom(in In, c groupMembers, placed int) finding.Finding {
	f := finding.Finding{Code: "GangWithoutRoom", Stage: finding.StagePlacement,
		Object: finding.Object{Kind: "PodGroup", Namespace: in.Pod.Namespace, Name: c.name},
		Field:  "spec.schedulingPolicy.gang.minCount", Value: strconv.Itoa(c.minMembers),
		Numbers: map[string]string{"minCount": strconv.Itoa(c.minMembers), "placed": strconv.Itoa(placed)},
		Related: []finding.Object{in.object()},
		Message: fmt.Sprintf("PodGroup %s wants %d Pods at once (minCount), and %d can be placed: none is bound.",
			c.name, c.minMembers, placed)}
	if placed > 0 {
		f.Want = strconv.Itoa(placed)
		f.Remedies = asRemedies([]Fix{lowerMinCount(in, c.name, placed)})
	}
	return f
}
