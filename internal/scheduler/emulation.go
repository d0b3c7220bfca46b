package scheduler

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/dynamicresources"
)

// unresolvableMessage is what PostFilter plugins said about a Pod, as v1.37 tells it, or as v1.36
// did: there DynamicResources had a word of its own where it could not help, and a search for
// victims that found some had none.
func unresolvableMessage(emulates136 bool, p *v1.Pod, s *framework.Status) string {
	said := s.Message()
	switch {
	case !emulates136:
		return said
	case s.IsSuccess():
		return ""
	case !s.IsRejected() || s.Plugin() != dynamicresources.Name:
		return said
	}
	word := "no new claims to deallocate"
	if len(p.Spec.ResourceClaims) > 0 {
		word = "still not schedulable"
	}
	if said == "" {
		return word
	}
	return word + ", " + said
}
