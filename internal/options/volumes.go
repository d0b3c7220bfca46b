package options

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/features"
)

// Volumes configures the controllers of volumes.
type Volumes struct {
	noForcedDetach bool
}

// Flags adds their flags, named as kube-controller-manager's. Those by which upstream's controllers
// look again now and then do nothing: these are told of every change.
func (v *Volumes) Flags(f *pflag.FlagSet) {
	f.BoolVar(&v.noForcedDetach, "disable-force-detach-on-timeout", false,
		"never detach a volume that a node which does not report has in use; the taint "+
			"node.kubernetes.io/out-of-service on the node detaches it")
	const none = "no effect: the controller is told of every change"
	f.Bool("disable-attach-detach-reconcile-sync", false, none)
	f.Duration("attach-detach-reconcile-sync-period", time.Minute, none)
	f.Duration("pvclaimbinder-sync-period", 15*time.Second, none)
}

// Config is what the controllers are given.
func (v *Volumes) Config(f features.Features) controllerruntime.Volumes {
	return controllerruntime.Volumes{NoForcedDetach: v.noForcedDetach,
		NoUnusedClaims: f.NoPersistentVolumeClaimUnusedSinceTime}
}
