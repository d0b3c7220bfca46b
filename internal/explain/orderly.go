package explain

import (
	"slices"
	"time"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// inOrder makes notes of what a Pod's own end brings with it: while its grace period runs, nothing
// of the Pod's is broken but what holds the object.
func inOrder(in In, list []finding.Finding) []finding.Finding {
	if in.Pod == nil || in.Pod.DeletionTimestamp == nil || in.Now.After(in.Pod.DeletionTimestamp.Add(endSlack)) {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if f := &list[i]; f.Object == in.object() && !(f.Code == "FinalizerHolds" && len(in.Pod.Finalizers) > 0) {
			f.Severity = finding.Note
		}
	}
	return list
}

// endSlack is how long after its grace period a Pod may take to go.
const endSlack = 5 * time.Second

// withRemedies gives the answer's remedies to those of its findings that hinder and have none.
func withRemedies(a Answer, told []finding.Finding) []finding.Finding {
	told = slices.Clone(told)
	for i := range told {
		if told[i].Severity == finding.Broken && len(told[i].Remedies) == 0 {
			told[i].Remedies = asRemedies(a.Fixes)
		}
	}
	return told
}
