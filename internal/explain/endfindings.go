package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// controllersTake is how long after a Pod's grace period a controller of Kubernetes may leave its
// finalizer on it before that is a trouble.
const controllersTake = time.Minute

// endFindings are what ended a Pod, or keeps it from going, as data.
func endFindings(in In) []finding.Finding {
	var out []finding.Finding
	p := in.Pod
	if p != nil && p.DeletionTimestamp != nil {
		if len(p.Finalizers) > 0 {
			f := finding.Finding{Code: "FinalizerHolds", Stage: finding.StageChange, Object: in.object(),
				Field: "metadata.finalizers", Value: strings.Join(p.Finalizers, ","),
				Message: "The Pod is being deleted and is held by " + joinList(p.Finalizers) + "."}
			if len(finding.ForeignFinalizers(p.Finalizers)) == 0 &&
				in.Now.Sub(p.DeletionTimestamp.Time) < controllersTake {
				f.Severity = finding.Note
			}
			out = append(out, f)
		}
		if g := p.DeletionGracePeriodSeconds; g != nil {
			out = append(out, finding.Finding{Code: "Terminating", Severity: finding.Note, Stage: finding.StageChange,
				Object: in.object(), Field: "spec.terminationGracePeriodSeconds", Value: fmt.Sprint(*g),
				Numbers: map[string]string{"deletionGracePeriodSeconds": fmt.Sprint(*g)},
				Message: fmt.Sprintf("The Pod is being deleted with a grace period of %d s.", *g)})
		}
	}
	if f, ok := endedByTaint(in); ok {
		out = append(out, f)
	}
	if f, ok := failedFinding(in); ok {
		out = append(out, f)
	}
	if f, at, ok := newest[journal.EvictionRefused](in, nil); ok && in.Now.Sub(at) < evictionWindow {
		out = append(out, finding.Finding{Code: "EvictionRefused", Stage: finding.StageChange,
			Object: finding.Object{Kind: "PodDisruptionBudget", Namespace: in.Ref.Namespace, Name: f.Budget},
			Field:  "status.disruptionsAllowed", Value: f.Budget, Related: []finding.Object{in.object()},
			Message: f.Message})
	}
	if f, _, ok := newest[journal.Preempted](in, nil); ok {
		out = append(out, finding.Finding{Code: "Preempted", Stage: finding.StageChange, Object: in.object(),
			Field: "spec.priority", Value: fmt.Sprint(f.Own), Want: fmt.Sprint(f.Priority), Message: f.Line() + ".",
			Numbers: map[string]string{"priority": fmt.Sprint(f.Own), "preemptor.priority": fmt.Sprint(f.Priority)}})
	}
	return out
}
