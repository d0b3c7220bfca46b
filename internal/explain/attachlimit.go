package explain

import (
	"fmt"
	"strconv"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// limitsRefusal is how many volumes of the claim's driver the node takes, with the Pods that use
// them; the claim where that is not known.
func limitsRefusal(in In, r journal.NodeRefusal) refusalField {
	out := claimsRefusal(in, r)
	on, ok := in.Objects.AttachmentsOn(r.Node, in.Pod.Namespace, out.value)
	if !ok {
		return out
	}
	out = refusalField{object: finding.Object{Kind: "CSINode", Name: r.Node},
		field: fmt.Sprintf("spec.drivers[%d].allocatable.count", on.Index), value: strconv.Itoa(int(on.Count)),
		related: append(out.related, on.Pods...),
		numbers: map[string]string{"count": strconv.Itoa(int(on.Count)), "driver": on.Driver}}
	if on.Used >= int(on.Count) { // otherwise Pods of namespaces that were not read use the others
		out.numbers["used"] = strconv.Itoa(on.Used)
	}
	return out
}
