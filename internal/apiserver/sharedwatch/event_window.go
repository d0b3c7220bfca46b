package sharedwatch

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// maxWindowEvents is how many events a window keeps for members that lag.
	maxWindowEvents = 4096
	// recentEvents is how many it keeps for those who come later.
	recentEvents = 128
)

// entry is an event with its revision.
type entry struct {
	watch.Event
	revision uint64
}

// eventWindow is what a group knows: all events after low, up to high. Entries are numbered; the
// first one kept has the number first.
type eventWindow struct {
	entries                   []entry
	firstIndex                int
	lowRevision, highRevision uint64
}

// endIndex is the number that the next entry will have.
func (w *eventWindow) endIndex() int { return w.firstIndex + len(w.entries) }

// add appends an entry. An error has no revision of its own.
func (w *eventWindow) add(e entry) {
	w.entries = append(w.entries, e)
	w.highRevision = max(w.highRevision, e.revision)
}

// eventsFrom appends to batch what comes from a place on, until the batch is full; false says that
// the place is not kept any more.
func (w *eventWindow) eventsFrom(place int, batch []entry) ([]entry, bool) {
	if place < w.firstIndex {
		return batch, false
	}
	rest := w.entries[min(place-w.firstIndex, len(w.entries)):]
	return append(batch, rest[:min(len(rest), cap(batch)-len(batch))]...), true
}

// trim forgets entries that are neither recent nor at or after the place that somebody needs, and
// all but the most, give or take some.
func (w *eventWindow) trim(needed int) {
	n := max(min(needed, w.endIndex()-recentEvents), w.endIndex()-maxWindowEvents) - w.firstIndex
	if n < recentEvents { // seldom, many at a time
		return
	}
	w.lowRevision = max(w.lowRevision, w.entries[n-1].revision)
	w.entries = slices.Delete(w.entries, 0, n)
	w.firstIndex += n
}
