package finding

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// namedPortOfSomePods finds a Service's port by name that the Pods of one workload have and those
// of another that it selects too do not: these take no traffic of that port.
func namedPortOfSomePods(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok || len(s.Spec.Selector) == 0 || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	pods := selected(s.Spec.Selector, c.labelledPods(self.Namespace))
	var out []Finding
	for i, p := range s.Spec.Ports {
		if p.TargetPort.Type != intstr.String || p.TargetPort.StrVal == "" {
			continue
		}
		var with, without []Object
		for _, x := range pods {
			root := c.outermost(c.Get(x.object), x.object)
			list := &without
			if len(c.named(x, p.TargetPort.StrVal)) > 0 {
				list = &with
			}
			if !slices.Contains(*list, root) {
				*list = append(*list, root)
			}
		}
		without = slices.DeleteFunc(without, func(x Object) bool { return slices.Contains(with, x) }) // a roll-out
		if len(with) == 0 || len(without) == 0 {
			continue
		}
		f := Finding{Code: "PortMissing", Severity: Threat, Stage: StageTraffic, Object: self,
			Field: fmt.Sprintf("spec.ports[%d].targetPort", i), Value: p.TargetPort.StrVal, Related: without,
			Numbers: map[string]string{"port": fmt.Sprint(p.Port)}, Message: fmt.Sprintf("Port %d of Service %s goes "+
				"to the port named %s, which the Pods of %s have; it selects the Pods of %s too, which have no port "+
				"of that name: they take no traffic of it.", p.Port, self.Name, p.TargetPort.StrVal, objectNames(with),
				objectNames(without)), Remedies: []Remedy{{Say: fmt.Sprintf("name a port %s in the containers of %s, "+
				"or select labels that only the others have", p.TargetPort.StrVal, objectNames(without))}}}
		out = append(out, f)
	}
	return out
}

// objectNames are kinds and names of objects in a sentence.
func objectNames(list []Object) string {
	var out []string
	for _, o := range list {
		out = append(out, o.Kind+" "+o.Name)
	}
	return joined(out)
}
