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

// whoAttached says which Pods of a node have volumes of the driver of which it takes no more.
func whoAttached(in In, r journal.NodeRefusal) (text string, who []finding.Object) {
	on, ok := in.Objects.AttachmentsOn(r.Node, in.Pod.Namespace, claimsRefusal(in, r).value)
	if !ok || len(on.Pods) == 0 {
		return "", nil
	}
	who = on.Pods[:min(len(on.Pods), maxHolders)]
	var names []string
	for _, o := range who {
		name := o.Name
		if o.Namespace != in.Ref.Namespace {
			name = o.Namespace + "/" + name
		}
		names = append(names, name)
	}
	if more := len(on.Pods) - maxHolders; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf(" The volumes of driver %s there are of Pods: %s.", on.Driver, joinList(names)), who
}
