package kubelet

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
)

// recordProbe counts a probe's answer and how late it was asked for.
func (k *Kubelet) recordProbe(p *v1.Pod, a prober.Measurement) {
	m := k.opts.Dependencies.Metrics
	m.ProbeDone(metrics.Probe{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Container: a.Key.Container,
		Kind: string(a.Key.Kind)}, a.Result, a.Took)
	m.ProbeLate(string(a.Key.Kind), a.Late)
}
