package sharedwatch

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// maxWindowEvents is how many events a window keeps for watchers that lag.
	maxWindowEvents = 4096
	// recentEvents is how many it keeps for watchers that join later.
	recentEvents = 128
)

// entry is an event with the resourceVersion of its object; 0 for errors.
type entry struct {
	watch.Event
	revision uint64
}

// eventWindow holds the newest events of a group: all after lowRevision, up to highRevision.
// Entries are numbered from the group's start; firstIndex is the number of entries[0]. The group's
// mu guards it.
type eventWindow struct {
	entries                   []entry
	firstIndex                int
	lowRevision, highRevision uint64
}

// endIndex returns the number that the next entry will have.
func (w *eventWindow) endIndex() int { return w.firstIndex + len(w.entries) }

// add appends an entry.
func (w *eventWindow) add(e entry) {
	w.entries = append(w.entries, e)
	w.highRevision = max(w.highRevision, e.revision)
}

// eventsFrom appends to batch the entries from number place on, up to batch's capacity; false if
// that number was trimmed.
func (w *eventWindow) eventsFrom(place int, batch []entry) ([]entry, bool) {
	if place < w.firstIndex {
		return batch, false
	}
	rest := w.entries[min(place-w.firstIndex, len(w.entries)):]
	return append(batch, rest[:min(len(rest), cap(batch)-len(batch))]...), true
}

// trim drops entries before the number needed, except the newest recentEvents, and whatever exceeds
// maxWindowEvents. It drops recentEvents or more at a time, or none.
func (w *eventWindow) trim(needed int) {
	n := max(min(needed, w.endIndex()-recentEvents), w.endIndex()-maxWindowEvents) - w.firstIndex
	if n < recentEvents {
		return
	}
	w.lowRevision = max(w.lowRevision, w.entries[n-1].revision)
	w.entries = slices.Delete(w.entries, 0, n)
	w.firstIndex += n
}
