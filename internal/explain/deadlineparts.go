package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// usedByInit is a sentence, with a space before it, about how much of a Pod's deadline its init
// containers used, and how much was left for the others: the deadline is for the whole Pod. Empty
// where they used no whole second.
func usedByInit(p *corev1.Pod) string {
	if p.Status.StartTime == nil {
		return ""
	}
	var parts []string
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		for _, s := range p.Status.InitContainerStatuses {
			t := s.State.Terminated
			if s.Name != c.Name || t == nil || pod.IsSidecar(c) || t.StartedAt.IsZero() {
				continue
			}
			if took := t.FinishedAt.Sub(t.StartedAt.Time).Round(time.Second); took >= time.Second {
				parts = append(parts, fmt.Sprintf("init container %s used %ds of it", c.Name, int(took.Seconds())))
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := fmt.Sprintf(" The deadline is for the whole Pod (from %s): %s", p.Status.StartTime.UTC().Format(
		"15:04:05 UTC"), strings.Join(parts, ", "))
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && !t.StartedAt.IsZero() {
			text += fmt.Sprintf(", and container %s ran for %ds", s.Name, int(t.FinishedAt.Sub(
				t.StartedAt.Time).Round(time.Second).Seconds()))
		}
	}
	return text + "."
}
