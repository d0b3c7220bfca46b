package options

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// HorizontalPodAutoscaling configures the controller of HorizontalPodAutoscalers.
type HorizontalPodAutoscaling struct {
	controllerruntime.HorizontalPodAutoscaling
}

// Flags adds its flags, named as kube-controller-manager's, with their defaults.
func (h *HorizontalPodAutoscaling) Flags(f *pflag.FlagSet) {
	h.HorizontalPodAutoscaling = controllerruntime.DefaultHorizontalPodAutoscaling()
	const prefix = "horizontal-pod-autoscaler-"
	f.IntVar(&h.ConcurrentSyncs, "concurrent-horizontal-pod-autoscaler-syncs", h.ConcurrentSyncs,
		"how many HorizontalPodAutoscalers are decided about at once")
	f.DurationVar(&h.SyncPeriod, prefix+"sync-period", h.SyncPeriod,
		"time from one decision about a HorizontalPodAutoscaler to the next")
	f.DurationVar(&h.DownscaleStabilization, prefix+"downscale-stabilization", h.DownscaleStabilization,
		"how long the greatest recommended count holds back scaling down")
	f.Float64Var(&h.Tolerance, prefix+"tolerance", h.Tolerance,
		"how far the ratio of usage to target may be from 1 before a HorizontalPodAutoscaler scales")
	f.DurationVar(&h.CPUInitializationPeriod, prefix+"cpu-initialization-period", h.CPUInitializationPeriod,
		"time after a Pod's start in which its CPU usage may not count")
	f.DurationVar(&h.InitialReadinessDelay, prefix+"initial-readiness-delay", h.InitialReadinessDelay,
		"time after a Pod's start in which a change of readiness is the first one")
}

// Check refuses what the controller cannot work with.
func (h *HorizontalPodAutoscaling) Check() error {
	const prefix = "--horizontal-pod-autoscaler-"
	refuse := func(flag string, got any, want string) error {
		return cli.UsageError(fmt.Errorf("%s=%v: want %s", flag, got, want))
	}
	var errs []error
	if n := h.ConcurrentSyncs; n < 1 {
		errs = append(errs, refuse("--concurrent-horizontal-pod-autoscaler-syncs", n, "at least 1"))
	}
	if d := h.SyncPeriod; d <= 0 {
		errs = append(errs, refuse(prefix+"sync-period", d, "more than 0, such as 15s"))
	}
	if t := h.Tolerance; !(t >= 0) {
		errs = append(errs, refuse(prefix+"tolerance", t, "0 or more, such as 0.1"))
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"downscale-stabilization", h.DownscaleStabilization},
		{"cpu-initialization-period", h.CPUInitializationPeriod},
		{"initial-readiness-delay", h.InitialReadinessDelay},
	} {
		if d.value < 0 {
			errs = append(errs, refuse(prefix+d.flag, d.value, "0s or more"))
		}
	}
	return errors.Join(errs...)
}
