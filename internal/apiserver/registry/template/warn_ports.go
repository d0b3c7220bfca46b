package template

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// placed is a port and where it stands.
type placed struct {
	at   *field.Path
	port *v1.ContainerPort
}

// ports warns of ports that are given more than once, and of host addresses that mean nothing.
func (w *warnings) ports() {
	seen := map[string][]placed{}
	w.each(func(c *v1.Container, p *field.Path) {
		for i := range c.Ports {
			port, at := &c.Ports[i], p.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.say(at, "hostIP set without hostPort: %s", bracketed(port))
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, o := range seen[key] {
				if !w.another() {
					return
				}
				if how := clash(port, o.port); how != "" {
					w.say(at, "%s port definition with %s", how, o.at)
				}
			}
			seen[key] = append(seen[key], placed{at, port})
		}
	})
}

// clash says how two definitions of the same port of the Pod get along.
func clash(a, b *v1.ContainerPort) string {
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

// portNames warns of names that two containers give to ports.
func (w *warnings) portNames() {
	seen := map[string]*field.Path{}
	w.each(func(c *v1.Container, p *field.Path) {
		for i := range c.Ports {
			name, at := c.Ports[i].Name, p.Child("ports").Index(i)
			if name == "" {
				continue
			}
			if first, ok := seen[name]; ok {
				w.say(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", name, first, first)
				continue
			}
			seen[name] = at
		}
	})
}

// bracketed prints a port as upstream's warning does.
func bracketed(p *v1.ContainerPort) string {
	return fmt.Sprintf("{Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}", p.Name, p.HostPort, p.ContainerPort, p.Protocol, p.HostIP)
}
