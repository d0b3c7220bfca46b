package journal

import (
	"fmt"
	"strings"
)

// PullProgress is the progress of a running pull, if the runtime reports it. It is put every few
// seconds.
type PullProgress struct {
	Image     string `json:"image"`
	Container string `json:"container,omitempty"`
	Bytes     int64  `json:"bytes"` // fetched so far
	Total     int64  `json:"of"`    // in all
}

// Unpacking reports whether everything is fetched and layers are being unpacked.
func (f PullProgress) Unpacking() bool { return f.Total > 0 && f.Bytes >= f.Total }

// Line prints both sizes.
func (f PullProgress) Line() string {
	if f.Unpacking() {
		return fmt.Sprintf("pulling image %q: all %s fetched, being unpacked", f.Image, Megabytes(f.Total))
	}
	return fmt.Sprintf("pulling image %q: %s of %s", f.Image, Megabytes(f.Bytes), Megabytes(f.Total))
}

// PullQueued says that a pull waits for others to end.
type PullQueued struct {
	Image     string `json:"image"`
	Container string `json:"container,omitempty"`
	Position  int    `json:"place"` // 1 is next
	// the limit of parallel pulls (maxParallelImagePulls; 1 with serializeImagePulls)
	Limit   int      `json:"limit"`
	Pulling []string `json:"pulling,omitempty"` // images being pulled
}

// Line prints the position and the images it waits for.
func (f PullQueued) Line() string {
	return fmt.Sprintf("image %q waits for its turn to be pulled: place %d in the queue, behind %s; %d side by side "+
		"at most (maxParallelImagePulls)",
		f.Image, f.Position, strings.Join(f.Pulling, ", "), f.Limit)
}

// Megabytes formats bytes in units of 10⁶ with one digit, as registries and runtimes do.
func Megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

// QueuedPullTarget returns Waited.For of a pull that was queued and has started.
func QueuedPullTarget(image string) string { return fmt.Sprintf("pull image %q", image) }
