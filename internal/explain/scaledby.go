package explain

import (
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// scaledBy tells of a workload that is well which autoscaler sets its replicas: in the cause where
// that has no more to give, as another number that somebody set did not stay.
func (a *Answer) scaledBy(f finding.Finding) {
	switch {
	case f.Code != "ScaledByAutoscaler" || !slices.Contains(healthy, a.State):
	case f.Numbers["replicas"] == f.Numbers["maxReplicas"]:
		a.Cause = strings.ReplaceAll(a.Cause, "; nothing blocks it", "") + " " + f.Message
		a.Fixes = append(a.Fixes, remedies(f.Remedies)...)
	default:
		a.Facts = append(a.Facts, f.Message)
	}
}
