package rotation

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Policy is when a log is rotated, and how much is kept.
type Policy struct {
	MaxSize         int64 // bytes; negative: logs are not rotated
	MaxFiles        int   // per container, the one being written included
	Workers         int   // rotations side by side
	MonitorInterval time.Duration
}

// PolicyOf reads containerLogMaxSize, containerLogMaxFiles, containerLogMaxWorkers and
// containerLogMonitorInterval; errors name the field.
func PolicyOf(c *kubeletconfig.KubeletConfiguration) (Policy, error) {
	p := Policy{MaxSize: 10 << 20, MaxFiles: 5, Workers: 1, MonitorInterval: 10 * time.Second}
	if c.ContainerLogMaxSize != "" {
		q, err := resource.ParseQuantity(c.ContainerLogMaxSize)
		if err != nil {
			return p, fmt.Errorf("containerLogMaxSize %q: %w: write a quantity such as 10Mi", c.ContainerLogMaxSize,
				err)
		}
		if q.Value() == 0 {
			return p, errors.New("containerLogMaxSize: must be greater than 0, or negative to keep logs whole")
		}
		p.MaxSize = q.Value()
	}
	if n := c.ContainerLogMaxFiles; n != nil {
		if p.MaxFiles = int(*n); p.MaxFiles <= 1 {
			return p, fmt.Errorf("containerLogMaxFiles %d: must be > 1: one is being written", p.MaxFiles)
		}
	}
	if n := c.ContainerLogMaxWorkers; n != nil {
		if p.Workers = int(*n); p.Workers < 1 {
			return p, fmt.Errorf("containerLogMaxWorkers %d: must be greater than or equal to 1", p.Workers)
		}
	}
	if d := c.ContainerLogMonitorInterval; d != nil {
		if p.MonitorInterval = d.Duration; p.MonitorInterval < 3*time.Second {
			return p, fmt.Errorf("containerLogMonitorInterval %s: must be greater than or equal to 3s",
				p.MonitorInterval)
		}
	}
	return p, nil
}
