package devicetainteviction

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Count is what a rule does, or would do.
type Count struct {
	Pods, Namespaces     int // to be evicted, and their namespaces
	Published, Allocated int // selected devices; only counted for a rule with effect None
	Evicted              int // Pods evicted since the controller started
}

// Condition returns a rule's EvictionInProgress without time, with upstream's reasons and texts.
func Condition(rule *resourceapi.DeviceTaintRule, n Count) metav1.Condition {
	c := metav1.Condition{Type: resourceapi.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse,
		ObservedGeneration: rule.Generation}
	switch rule.Spec.Taint.Effect {
	case resourceapi.DeviceTaintEffectNoExecute:
		switch {
		case n.Pods > 0:
			c.Status, c.Reason = metav1.ConditionTrue, "PodsPendingEviction"
			c.Message = fmt.Sprintf("%s to be evicted in %s.", plural(n.Pods, "pod needs", "pods need"),
				plural(n.Namespaces, "namespace", "different namespaces"))
		case n.Evicted > 0:
			c.Reason = "Completed"
		default:
			c.Reason = "NotStarted"
		}
	case resourceapi.DeviceTaintEffectNone:
		c.Reason = "NoEffect"
		c.Message = fmt.Sprintf("%s selected. %s selected. %s would be evicted in %s if the effect was NoExecute. "+
			"This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.",
			plural(n.Published, "published device", "published devices"),
			plural(n.Allocated, "allocated device", "allocated devices"), plural(n.Pods, "pod", "pods"),
			plural(n.Namespaces, "namespace", "different namespaces"))
	default:
		c.Reason, c.Message = "OtherEffect", "Eviction only happens for the NoExecute effect."
	}
	if n.Evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += plural(n.Evicted, "pod", "pods") + " evicted since starting the controller."
	}
	return c
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
