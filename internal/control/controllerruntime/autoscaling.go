package controllerruntime

import "time"

// HorizontalPodAutoscaling configures the controller of HorizontalPodAutoscalers, by the flags of
// kube-controller-manager of these names.
type HorizontalPodAutoscaling struct {
	SyncPeriod              time.Duration // from one decision about an autoscaler to the next
	DownscaleStabilization  time.Duration // no scaling below what was recommended within it
	Tolerance               float64       // ratio of usage to target that changes nothing, from 1
	CPUInitializationPeriod time.Duration // after a Pod's start: its cpu use may not count
	InitialReadinessDelay   time.Duration // after a Pod's start: unready then is never ready
	ConcurrentSyncs         int
	ScaleToZero             bool // feature gate HPAScaleToZero
}

// DefaultHorizontalPodAutoscaling returns upstream's defaults.
func DefaultHorizontalPodAutoscaling() HorizontalPodAutoscaling {
	return HorizontalPodAutoscaling{SyncPeriod: 15 * time.Second, DownscaleStabilization: 5 * time.Minute,
		Tolerance: 0.1, CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second,
		ConcurrentSyncs: 5, ScaleToZero: true}
}
