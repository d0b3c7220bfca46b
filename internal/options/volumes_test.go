package options

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/features"
)

func TestVolumeControllersAreConfigured(t *testing.T) {
	for _, c := range []struct {
		args []string
		gate bool // off
		want controllerruntime.Volumes
	}{
		{nil, false, controllerruntime.Volumes{}},
		{[]string{"--disable-force-detach-on-timeout"}, false, controllerruntime.Volumes{NoForcedDetach: true}},
		{[]string{"--disable-attach-detach-reconcile-sync", "--attach-detach-reconcile-sync-period=5m",
			"--pvclaimbinder-sync-period=1m"}, true, controllerruntime.Volumes{NoUnusedClaims: true}},
	} {
		var v Volumes
		f := pflag.NewFlagSet("x", pflag.ContinueOnError)
		v.Flags(f)
		if err := f.Parse(c.args); err != nil {
			t.Errorf("%v: got %v, want no error", c.args, err)
		}
		if got := v.Config(features.Features{NoPersistentVolumeClaimUnusedSinceTime: c.gate}); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.args, got, c.want)
		}
	}
}
