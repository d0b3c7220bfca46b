package scheduler

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// unresolvableMessage is the message of PostFilter about a Pod in the words of v1.37, or of v1.36:
// there DynamicResources had a message of its own where it could not help, and a search for victims
// that found some had none.
func unresolvableMessage(emulates136 bool, p *v1.Pod, s *framework.Status) string {
	message := s.Message()
	switch {
	case !emulates136:
		return message
	case s.IsSuccess():
		return ""
	case !s.IsRejected() || s.Plugin() != dynamicresources.Name:
		return message
	}
	own := "no new claims to deallocate"
	if len(p.Spec.ResourceClaims) > 0 {
		own = "still not schedulable"
	}
	if message == "" {
		return own
	}
	return own + ", " + message
}
