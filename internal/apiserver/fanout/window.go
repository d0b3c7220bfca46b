package fanout

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// most is how many events a window keeps for members that lag.
	most = 4096
	// recent is how many it keeps for those who come later.
	recent = 128
)

// entry is an event with its revision.
type entry struct {
	watch.Event
	revision uint64
}

// window is what a group knows: all events after low, up to high. Entries are numbered; the first one kept has the number first.
type window struct {
	entries   []entry
	first     int
	low, high uint64
}

// end is the number that the next entry will have.
func (w *window) end() int { return w.first + len(w.entries) }

// add appends an entry. An error has no revision of its own.
func (w *window) add(e entry) {
	w.entries = append(w.entries, e)
	w.high = max(w.high, e.revision)
}

// from appends to batch what comes from a place on, until the batch is full; false says that the place is not kept any more.
func (w *window) from(place int, batch []entry) ([]entry, bool) {
	if place < w.first {
		return batch, false
	}
	rest := w.entries[min(place-w.first, len(w.entries)):]
	return append(batch, rest[:min(len(rest), cap(batch)-len(batch))]...), true
}

// trim forgets entries that are neither recent nor at or after the place that somebody needs, and all but the most, give or take some.
func (w *window) trim(needed int) {
	n := max(min(needed, w.end()-recent), w.end()-most) - w.first
	if n < recent { // seldom, many at a time
		return
	}
	w.low = max(w.low, w.entries[n-1].revision)
	w.entries = slices.Delete(w.entries, 0, n)
	w.first += n
}
