package devices

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/topologymanager"
	"github.com/gantry-project/gantry/internal/reason"
)

// HintProvider is what the topology manager asks about devices.
func (d *Devices) HintProvider() topologymanager.HintProvider { return d.plugins.HintProvider() }

// Reserve does what the topology manager does, where there is none: it reserves devices for a Pod's
// init containers and then for its containers.
func (d *Devices) Reserve(p *v1.Pod) *reason.Refusal {
	provider := d.plugins.HintProvider()
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if err := provider.Allocate(p, &list[i]); err != nil {
				return refusal(err)
			}
		}
	}
	return nil
}
