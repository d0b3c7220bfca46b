package scenario

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/control/tainteviction"
)

// leavesUnreachable tells whether a Pod is evicted from an unreachable node, sooner or later.
func leavesUnreachable(p *corev1.Pod) bool {
	taints := []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
	return tainteviction.Decide(p, taints, nil, time.Time{}).Evict
}
