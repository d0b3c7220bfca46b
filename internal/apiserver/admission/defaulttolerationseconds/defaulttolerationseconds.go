// Package defaulttolerationseconds is the admission plugin DefaultTolerationSeconds: Pods tolerate
// the taints not-ready and unreachable for 300 seconds, unless they have tolerations of their own
// for them.
//
// In: a Pod being written. Out: tolerations of the two NoExecute taints added.
package defaulttolerationseconds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Seconds is how long; upstream's default.
const Seconds = 300

// Plugin is the mutating plugin DefaultTolerationSeconds.
type Plugin struct{ *admission.Handler }

// New makes it.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// Admit implements admission.MutationInterface.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("pods") || a.GetSubresource() != "" {
		return nil
	}
	if pod, ok := a.GetObject().(*corev1.Pod); ok {
		pod.Spec.Tolerations = Fill(pod.Spec.Tolerations)
	}
	return nil
}

// Fill adds the tolerations a Pod lacks.
func Fill(list []corev1.Toleration) []corev1.Toleration {
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if tolerated(list, taint) {
			continue
		}
		seconds := int64(Seconds)
		list = append(list, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: &seconds,
		})
	}
	return list
}

func tolerated(list []corev1.Toleration, taint string) bool {
	for _, t := range list {
		if (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
