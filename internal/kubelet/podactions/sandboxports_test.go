package podactions

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Host ports of every app container and sidecar are the sandbox's, with their protocol and address;
// those of init containers that end are not, and a Pod in the node's network has none. A sandbox is
// privileged when one of its containers is.
func TestSandboxHasWhatItsContainersAskFor(t *testing.T) {
	p := testPod(v1.Container{Name: "app", Ports: []v1.ContainerPort{{ContainerPort: 81},
		{ContainerPort: 80, HostPort: 8080, Protocol: v1.ProtocolTCP, HostIP: "127.0.0.1"}}})
	p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "dns",
		Ports: []v1.ContainerPort{{ContainerPort: 53, HostPort: 5353, Protocol: v1.ProtocolUDP}}})
	p.Spec.InitContainers = []v1.Container{
		{Name: "first", Ports: []v1.ContainerPort{{ContainerPort: 1, HostPort: 1, Protocol: v1.ProtocolTCP}}},
		{Name: "side", RestartPolicy: new(v1.ContainerRestartPolicyAlways),
			Ports: []v1.ContainerPort{{ContainerPort: 90, HostPort: 9090, Protocol: v1.ProtocolSCTP}}}}
	call := testOperation(t, &fakePorts{}, p)
	for _, c := range []struct {
		name  string
		set   func(*v1.PodSpec)
		ports string
		privy bool
	}{
		{"plain", func(*v1.PodSpec) {}, "SCTP 9090:90 , TCP 8080:80 127.0.0.1, UDP 5353:53 ", false},
		{"the second is privileged", func(s *v1.PodSpec) {
			s.Containers[1].SecurityContext = &v1.SecurityContext{Privileged: new(true)}
		}, "SCTP 9090:90 , TCP 8080:80 127.0.0.1, UDP 5353:53 ", true},
		{"none is, by name", func(s *v1.PodSpec) {
			s.Containers[1].SecurityContext = &v1.SecurityContext{Privileged: new(false)}
		}, "SCTP 9090:90 , TCP 8080:80 127.0.0.1, UDP 5353:53 ", false},
		{"the node's network", func(s *v1.PodSpec) { s.HostNetwork = true }, "", false},
	} {
		c.set(&p.Spec)
		cfg, err := call.sandboxConfig(t.Context(), 0, func(string, string) {})
		if err != nil {
			t.Fatal(err)
		}
		var ports []string
		for _, m := range cfg.PortMappings {
			ports = append(ports, fmt.Sprintf("%s %d:%d %s", m.Protocol, m.HostPort, m.ContainerPort, m.HostIp))
		}
		if got := strings.Join(ports, ", "); got != c.ports {
			t.Errorf("%s: got ports %q, want %q", c.name, got, c.ports)
		}
		if got := cfg.Linux.SecurityContext.Privileged; got != c.privy {
			t.Errorf("%s: got privileged %t, want %t", c.name, got, c.privy)
		}
	}
}
