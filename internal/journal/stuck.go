package journal

import (
	"fmt"
	"time"
)

// Stuck says that a step of a Pod's life on its node has not come back for longer than such a step
// takes: a call that hangs.
type Stuck struct {
	Path  string    `json:"path"` // SyncPod, SyncTerminatingPod, SyncTerminatedPod
	Step  string    `json:"step"` // what was begun and has not come back
	Since time.Time `json:"since"`
}

// Line prints path, step and since when.
func (f Stuck) Line() string {
	return fmt.Sprintf("stuck in %s: %s has not come back since %s", f.Path, f.Step, f.Since.UTC().Format(time.RFC3339))
}

// Unstuck says that a step that was told to be stuck has come back, with or without success.
type Unstuck struct {
	Path string `json:"path"`
	Step string `json:"step"`
	Took Took   `json:"took"`
}

// Line prints what came back after how long.
func (f Unstuck) Line() string {
	return fmt.Sprintf("no longer stuck in %s: %s came back after %s", f.Path, f.Step, f.Took)
}
