package explain

import (
	"fmt"
	"slices"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// debuggingFindings are ephemeral containers that have no image or cannot be made: the Pod is as
// well as without them, and whoever asked for one waits.
func debuggingFindings(in In) []finding.Finding {
	var out []finding.Finding
	for i, x := range in.Pod.Spec.EphemeralContainers {
		for _, s := range in.Pod.Status.EphemeralContainerStatuses {
			w := s.State.Waiting
			if s.Name != x.Name || w == nil {
				continue
			}
			f := finding.Finding{Code: w.Reason, Severity: finding.Threat, Stage: finding.StageImage,
				Object: in.object(), Field: fmt.Sprintf("spec.ephemeralContainers[%d].image", i), Value: x.Image,
				Remedies: []finding.Remedy{{
					Say: fmt.Sprintf("an ephemeral container is never changed: add another with an image that can be "+
						"pulled, as by kubectl -n %s debug pod/%s --image=IMAGE", in.Pod.Namespace, in.Pod.Name)}}}
			switch {
			case slices.Contains(imageReasons, w.Reason):
				f.Message = fmt.Sprintf("Ephemeral container %s has no image %s: %s", x.Name, x.Image, w.Message)
			case slices.Contains(configReasons, w.Reason):
				f.Stage = finding.StageRun
				f.Field, f.Value = fmt.Sprintf("spec.ephemeralContainers[%d]", i), x.Name
				f.Message = fmt.Sprintf("Ephemeral container %s cannot be made: %s", x.Name, w.Message)
			default:
				continue
			}
			out = append(out, f)
		}
	}
	return out
}
