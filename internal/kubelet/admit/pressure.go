package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
)

// pressure keeps Pods off a node that evicts: all but critical ones, and while it is short of
// nothing but memory only BestEffort ones that do not tolerate that.
func pressure(in In) *reason.Refusal {
	if len(in.Pressure) == 0 || pod.IsCritical(in.Pod) {
		return nil
	}
	if slices.Equal(in.Pressure, []v1.NodeConditionType{v1.NodeMemoryPressure}) {
		taint := []v1.Taint{{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}}
		_, untolerated := fit.Untolerated(taint, in.Pod.Spec.Tolerations, v1.TaintEffectNoSchedule)
		if pod.QOS(in.Pod) != v1.PodQOSBestEffort || !untolerated {
			return nil
		}
	}
	return &reason.Refusal{Code: reason.Evicted, Detail: fmt.Sprintf("The node had condition: %v. ", in.Pressure),
		Fix: "kubectl describe node shows what the node is short of; Pods are taken in again when the condition is " +
			"over"}
}
