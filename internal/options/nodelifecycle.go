package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/nodelifecycle"
)

// NodeLifecycle configures the controller that watches over nodes.
type NodeLifecycle struct {
	MonitorGracePeriod time.Duration
}

// Flags adds its flag, named as kube-controller-manager's, with its default.
func (n *NodeLifecycle) Flags(f *pflag.FlagSet) {
	f.DurationVar(&n.MonitorGracePeriod, "node-monitor-grace-period", nodelifecycle.MonitorGracePeriod,
		"how long a node may not report before it counts as not ready; several times nodeLeaseDurationSeconds/4, "+
			"at which kubelets report")
}

// Check refuses what the controller cannot work with.
func (n *NodeLifecycle) Check() error {
	if d := n.MonitorGracePeriod; d <= 0 {
		return cli.UsageError(fmt.Errorf("--node-monitor-grace-period=%s: want more than 0, such as 50s", d))
	}
	return nil
}
