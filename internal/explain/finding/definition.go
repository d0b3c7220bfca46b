package finding

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// conditionsOf reads status.conditions of an object of any type.
func conditionsOf(u *unstructured.Unstructured) []map[string]any {
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	var out []map[string]any
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// wanted are the conditions of kinds without a Go type here, and the status that is well.
var wanted = map[string]map[string]string{
	"CustomResourceDefinition": {"NamesAccepted": "True", "Established": "True", "NonStructuralSchema": "False",
		"Terminating": "False"},
	"APIService": {"Available": "True"},
}

// wrongCondition finds a CustomResourceDefinition or APIService whose conditions say that it is not
// served.
func wrongCondition(c *Cluster, o metav1.Object, self Object) []Finding {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	var out []Finding
	for _, cond := range conditionsOf(u) {
		typ, status := fmt.Sprint(cond["type"]), fmt.Sprint(cond["status"])
		want, known := wanted[self.Kind][typ]
		if !known || status == want {
			continue
		}
		out = append(out, Finding{Code: "ConditionWrong", Stage: StageControl, Object: self, Field: "status.conditions",
			Value: typ + "=" + status, Want: typ + "=" + want,
			Message: fmt.Sprintf("%s %s is not served: %s is %s (%v): %v", self.Kind, self.Name, typ, status,
				cond["reason"], cond["message"])})
	}
	if len(conditionsOf(u)) == 0 && c.Now.Sub(u.GetCreationTimestamp().Time) > time.Minute {
		out = append(out, Finding{Code: "ControllersIdle", Stage: StageControl, Object: self,
			Field:   "status.conditions",
			Message: fmt.Sprintf("Nobody has looked at %s %s since it was created.", self.Kind, self.Name)})
	}
	return out
}
