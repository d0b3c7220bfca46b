package podspec

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// portUse is a port and its path.
type portUse struct {
	at   *field.Path
	port *v1.ContainerPort
}

// ports warns of duplicate ports and of host addresses without effect.
func (w *warnings) ports() {
	seen := map[string][]portUse{}
	w.visitContainers(func(c *v1.Container, p *field.Path) {
		for i := range c.Ports {
			port, at := &c.Ports[i], p.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.add(at, "hostIP set without hostPort: %s", quoteNames(port))
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, o := range seen[key] {
				if !w.hasNext() {
					return
				}
				if how := portsConflict(port, o.port); how != "" {
					w.add(at, "%s port definition with %s", how, o.at)
				}
			}
			seen[key] = append(seen[key], portUse{at, port})
		}
	})
}

// portsConflict returns how two definitions of the same container port conflict; "" if they do not.
func portsConflict(a, b *v1.ContainerPort) string {
	switch {
	case a.HostIP == b.HostIP && a.HostPort == b.HostPort:
		return "duplicate"
	case a.HostPort == 0 || b.HostPort == 0:
		return "overlapping"
	case a.HostPort == b.HostPort && (a.HostIP == "") != (b.HostIP == ""):
		return "dangerously ambiguous"
	}
	return ""
}

// portNames warns of port names that two containers use.
func (w *warnings) portNames() {
	seen := map[string]*field.Path{}
	w.visitContainers(func(c *v1.Container, p *field.Path) {
		for i := range c.Ports {
			name, at := c.Ports[i].Name, p.Child("ports").Index(i)
			if name == "" {
				continue
			}
			if first, ok := seen[name]; ok {
				w.add(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s",
					name, first, first)
				continue
			}
			seen[name] = at
		}
	})
}

// quoteNames formats a port as upstream's warning does.
func quoteNames(p *v1.ContainerPort) string {
	return fmt.Sprintf("{Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}", p.Name, p.HostPort,
		p.ContainerPort, p.Protocol, p.HostIP)
}
