package priority

import (
	"fmt"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apiserver/pkg/admission"
)

// admitGroup turns a PodGroup's priorityClassName into its number, as a Pod's.
func (p *Plugin) admitGroup(a admission.Attributes) error {
	g, ok := a.GetObject().(*schedulingv1beta1.PodGroup)
	if !ok {
		return nil
	}
	if a.GetOperation() == admission.Update {
		if old, ok := a.GetOldObject().(*schedulingv1beta1.PodGroup); ok && g.Spec.Priority == nil {
			g.Spec.Priority = old.Spec.Priority
		}
		return nil
	}
	class, err := p.getPriorityClass(a, g.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	if n := g.Spec.Priority; n != nil && *n != class.Value {
		return admission.NewForbidden(a,
			fmt.Errorf("the integer value of priority (%d) must not be provided in pod group spec; priority "+
				"admission controller computed %d from the given PriorityClass name", *n, class.Value))
	}
	g.Spec.PriorityClassName, g.Spec.Priority = class.Name, &class.Value
	return nil
}
