package explain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// claimsRefusal is the claim whose volume the node cannot use: the one that the refusal's words
// name, or the first.
func claimsRefusal(in In, r journal.NodeRefusal) refusalField {
	out := refusalField{field: "spec.volumes[*].persistentVolumeClaim.claimName"}
	for i := range in.Pod.Spec.Volumes {
		name, _ := pod.ClaimName(in.Pod, &in.Pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		if out.value == "" || strings.Contains(r.Detail, name) {
			out = refusalField{field: fmt.Sprintf("spec.volumes[%d].persistentVolumeClaim.claimName", i), value: name,
				related: []finding.Object{{Kind: "PersistentVolumeClaim", Namespace: in.Pod.Namespace, Name: name}}}
		}
	}
	if m := onlyWhere.FindStringSubmatch(r.Detail); m != nil {
		out.numbers = map[string]string{"only.label": m[1], "only.value": m[2]}
	}
	return out
}

// onlyWhere matches the label of the nodes that reach a volume.
var onlyWhere = regexp.MustCompile(`exists only where (\S+)=([^\s,;)]+)`)
