package journal

import (
	"fmt"
	"time"
)

// Stuck says that a step of the kubelet's work on a Pod takes longer than such steps do: a call
// hangs.
type Stuck struct {
	Path  string    `json:"path"` // SyncPod, SyncTerminatingPod, SyncTerminatedPod
	Step  string    `json:"step"` // the step that has not returned
	Since time.Time `json:"since"`
}

// Line prints path, step and start.
func (f Stuck) Line() string {
	return fmt.Sprintf("stuck in %s: %s has not come back since %s", f.Path, f.Step, f.Since.UTC().Format(time.RFC3339))
}

// Unstuck says that a stuck step has returned, with or without success.
type Unstuck struct {
	Path string `json:"path"`
	Step string `json:"step"`
	Took Took   `json:"took"`
}

// Line prints the step and how long it took.
func (f Unstuck) Line() string {
	return fmt.Sprintf("no longer stuck in %s: %s came back after %s", f.Path, f.Step, f.Took)
}
