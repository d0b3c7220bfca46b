package probelint

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// noReadiness finds containers that get a Service's traffic and have no readiness probe.
func noReadiness(l ruleInput) []Finding {
	var out []Finding
	for _, b := range l.containers() {
		if _, ok := b.probeOf(probe.Readiness); ok || !b.isLongRunning() {
			continue
		}
		var by []string
		for i := range l.Services {
			if s := &l.Services[i]; l.selects(s) && l.routesTo(s, b) {
				by = append(by, s.Name)
			}
		}
		if len(by) > 0 {
			out = append(out,
				b.finding(Warning, "",
					fmt.Sprintf("Service %s sends traffic here from the moment the process runs, whether or not it "+
						"can answer, at every start and rollout", strings.Join(by, ", ")),
					"add a readinessProbe that asks what clients ask"))
		}
	}
	return out
}

func (l ruleInput) selects(s *v1.Service) bool {
	same := s.Namespace == l.Workload.Namespace || s.Namespace+l.Workload.Namespace == "default"
	return same && len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(
		labels.Set(l.Workload.Labels))
}

// routesTo reports whether one of the Service's ports leads to the container. A single container
// gets all ports.
func (l ruleInput) routesTo(s *v1.Service, b containerInput) bool {
	serving := 0
	for _, other := range l.containers() {
		if other.isLongRunning() {
			serving++
		}
	}
	if serving == 1 {
		return true
	}
	for _, p := range s.Spec.Ports {
		to := p.TargetPort
		if to == (intstr.IntOrString{}) {
			to = intstr.FromInt32(p.Port)
		}
		for _, own := range b.Ports {
			if to.Type == intstr.String && own.Name == to.StrVal ||
				to.Type == intstr.Int && own.ContainerPort == to.IntVal {
				return true
			}
		}
	}
	return false
}
