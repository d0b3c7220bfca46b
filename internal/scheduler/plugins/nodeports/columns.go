package nodeports

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

var _ schedule.NodeLocal = (*Plugin)(nil)

// AppendShape is the host ports.
func (*Plugin) AppendShape(to []byte, p *v1.Pod) ([]byte, bool) {
	for _, port := range pod.HostPorts(p) {
		to = schedule.AppendString(to, port.HostIP)
		to = schedule.AppendString(to, string(port.Protocol))
		to = schedule.AppendInt(to, int64(port.HostPort))
	}
	return to, true
}
