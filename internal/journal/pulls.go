package journal

import (
	"fmt"
	"strings"
)

// PullProgress says how far a pull is that is under way, where the runtime tells. It is put every
// few seconds while the pull lasts.
type PullProgress struct {
	Image     string `json:"image"`
	Container string `json:"container,omitempty"`
	Bytes     int64  `json:"bytes"` // on the node
	Total     int64  `json:"of"`    // in all
}

// Unpacking tells that all is fetched: the pull lasts because layers are being unpacked.
func (f PullProgress) Unpacking() bool { return f.Total > 0 && f.Bytes >= f.Total }

// Line prints both sizes.
func (f PullProgress) Line() string {
	if f.Unpacking() {
		return fmt.Sprintf("pulling image %q: all %s fetched, being unpacked", f.Image, Megabytes(f.Total))
	}
	return fmt.Sprintf("pulling image %q: %s of %s", f.Image, Megabytes(f.Bytes), Megabytes(f.Total))
}

// PullQueued says that a pull waits until others have ended.
type PullQueued struct {
	Image     string `json:"image"`
	Container string `json:"container,omitempty"`
	Position  int    `json:"place"` // 1 is next
	// pulls side by side (maxParallelImagePulls; 1 with serializeImagePulls)
	Limit   int      `json:"limit"`
	Pulling []string `json:"pulling,omitempty"` // images that are being pulled
}

// Line prints the place and whom it waits for.
func (f PullQueued) Line() string {
	return fmt.Sprintf("image %q waits for its turn to be pulled: place %d in the queue, behind %s; %d side by side "+
		"at most (maxParallelImagePulls)",
		f.Image, f.Position, strings.Join(f.Pulling, ", "), f.Limit)
}

// Megabytes prints bytes in millions with one digit, as registries and runtimes count them.
func Megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// QueuedPullTarget is what a Waited is for whose pull was queued and has now begun.
func QueuedPullTarget(image string) string { return fmt.Sprintf("pull image %q", image) }
