package options

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// The flags have upstream's names and defaults; what the controller cannot work with is refused
// with the flag's name.
func TestHorizontalPodAutoscalingFlags(t *testing.T) {
	for _, c := range []struct{ arg, want string }{
		{"", ""},
		{"--horizontal-pod-autoscaler-sync-period=1s", ""},
		{"--horizontal-pod-autoscaler-downscale-stabilization=0s", ""},
		{"--horizontal-pod-autoscaler-tolerance=0", ""},
		{"--concurrent-horizontal-pod-autoscaler-syncs=0",
			"--concurrent-horizontal-pod-autoscaler-syncs=0: want at least 1"},
		{"--horizontal-pod-autoscaler-sync-period=0s", "--horizontal-pod-autoscaler-sync-period=0s: want more than 0"},
		{"--horizontal-pod-autoscaler-tolerance=-0.1", "--horizontal-pod-autoscaler-tolerance=-0.1: want 0 or more"},
		{"--horizontal-pod-autoscaler-tolerance=NaN", "--horizontal-pod-autoscaler-tolerance=NaN: want 0 or more"},
		{"--horizontal-pod-autoscaler-downscale-stabilization=-1s",
			"--horizontal-pod-autoscaler-downscale-stabilization=-1s: want 0s or more"},
		{"--horizontal-pod-autoscaler-cpu-initialization-period=-1s",
			"--horizontal-pod-autoscaler-cpu-initialization-period=-1s: want 0s or more"},
		{"--horizontal-pod-autoscaler-initial-readiness-delay=-1s",
			"--horizontal-pod-autoscaler-initial-readiness-delay=-1s: want 0s or more"},
	} {
		var h HorizontalPodAutoscaling
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		h.Flags(f)
		if got, want := h.HorizontalPodAutoscaling, controllerruntime.DefaultHorizontalPodAutoscaling(); got != want {
			t.Fatalf("got defaults %+v, want %+v", got, want)
		}
		if err := f.Parse(strings.Fields(c.arg)); err != nil {
			t.Fatal(err)
		}
		err := h.Check()
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.arg, err, c.want)
		}
	}
}
