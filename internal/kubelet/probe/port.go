package probe

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Port resolves a probe's port, which may be a number, the name of one of the container's ports, or
// a number in a string. Errors read as upstream's.
func Port(p intstr.IntOrString, c *v1.Container) (int, error) {
	n := p.IntValue()
	if p.Type == intstr.String {
		n = 0
		for i := range c.Ports {
			if c.Ports[i].Name == p.StrVal {
				n = int(c.Ports[i].ContainerPort)
			}
		}
		if n == 0 {
			var err error
			if n, err = strconv.Atoi(p.StrVal); err != nil {
				return 0, err
			}
		}
	}
	if n <= 0 || n >= 65536 {
		return 0, fmt.Errorf("invalid port number: %v", n)
	}
	return n, nil
}
