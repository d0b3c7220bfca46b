package kubelet

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/probe/ask"
)

// answered counts a probe's answer and how late it was asked for.
func (k *Kubelet) answered(p *v1.Pod, a ask.Answer) {
	m := k.o.Ports.Meter
	m.Probed(metrics.Probe{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Container: a.Key.Container, Kind: string(a.Key.Kind)}, a.Result, a.Took)
	m.Late(string(a.Key.Kind), a.Late)
}
