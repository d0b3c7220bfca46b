package nodeports

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
)

var _ place.Local = (*Plugin)(nil)

// Shape is the host ports.
func (*Plugin) Shape(to []byte, p *v1.Pod) ([]byte, bool) {
	for _, port := range pod.HostPorts(p) {
		to = place.AppendString(to, port.HostIP)
		to = place.AppendString(to, string(port.Protocol))
		to = place.AppendInt(to, int64(port.HostPort))
	}
	return to, true
}
