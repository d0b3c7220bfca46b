package autoscalers

import (
	"compress/gzip"
	"encoding/json"
	"os"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Series is one autoscaler over some periods. Times are in seconds, values in thousandths.
type Series struct {
	Seed     uint64
	Period   int
	Options  Options
	Replicas int32 // of the target at first
	Steps    []Step
}

// Options are the controller's settings.
type Options struct {
	Downscale, CPUInitialization, ReadinessDelay int
	Tolerance                                    float64
	ScaleToZero                                  bool
}

// Step is one period: what is so when it ends, and what was decided then.
type Step struct {
	Spec      *autoscalingv2.HorizontalPodAutoscalerSpec `json:",omitempty"` // changed; nil: as before
	Set       *int32                                     `json:",omitempty"` // somebody sets the scale to
	Lag       int32                                      `json:",omitempty"` // replicas that are missing
	Selector  *string                                    `json:",omitempty"` // nil: that of the Pods
	ScaleErr  string                                     `json:",omitempty"` // answer to a read of the scale
	UpdateErr string                                     `json:",omitempty"` // answer to a write of the scale
	Pods      []Pod                                      `json:",omitempty"` // given out in turn to the replicas

	ResourceErr, CustomErr, ExternalErr string             `json:",omitempty"`
	Values                              map[string][]int64 `json:",omitempty"` // by metric, see Names
	Age                                 int                // of samples
	Window                              int                // of samples

	Want Want
}

// Pod is what Pods have in common. Ages are before now; -1 is never.
type Pod struct {
	Phase     corev1.PodPhase
	Ready     corev1.ConditionStatus `json:",omitempty"` // empty: no condition
	Started   int
	ReadySet  int   // age of the condition's last change
	Ends      bool  `json:",omitempty"`
	App, Side int64 // requests of the two containers; 0 is none
	Whole     int64 `json:",omitempty"` // request of the Pod
}

// Want is what was decided in a step.
type Want struct {
	Replicas           int32 // of the target afterwards
	Current, Desired   int32 // in the status
	Scaled             int   // second of the last scaling in the status, -1 if there was none
	Metrics            string
	Conditions, Events []string `json:",omitempty"`
}

// Missing is the value of a Pod without one.
const Missing = -1

// Load reads series from a file that Save wrote.
func Load(path string) ([]Series, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var all []Series
	return all, json.NewDecoder(z).Decode(&all)
}

// Save writes series into a compressed file.
func Save(path string, all []Series) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(z).Encode(all); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}
