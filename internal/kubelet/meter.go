package kubelet

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// answered counts a probe's answer.
func (k *Kubelet) answered(p *v1.Pod, key probe.Key, result string, took time.Duration) {
	k.o.Ports.Meter.Probed(metrics.Probe{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Container: key.Container, Kind: string(key.Kind)}, result, took)
}
