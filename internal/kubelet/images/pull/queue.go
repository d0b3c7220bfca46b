package pull

import (
	"context"
	"slices"
	"sync"
)

// pullQueue let pulls run side by side up to a limit, first come first served.
type pullQueue struct {
	limit int // 0 is no bound

	mu      sync.Mutex
	running []string // images
	waiting []*queueEntry
}

// queueEntry is one pull that waits for its own.
type queueEntry struct {
	image      string
	admitted   chan struct{}                     // closed when the pull may run
	onPosition func(place int, running []string) // called with turns.mu held, whenever the place in the queue changes
}

// enter waits until the image may be pulled. told is called with the place in the queue whenever it
// changes, never when there is none to wait in.
func (t *pullQueue) enter(ctx context.Context, image string,
	onPosition func(place int, running []string)) (waited bool, err error) {
	t.mu.Lock()
	if t.limit == 0 || len(t.running) < t.limit {
		t.running = append(t.running, image)
		t.mu.Unlock()
		return false, nil
	}
	w := &queueEntry{image: image, admitted: make(chan struct{}), onPosition: onPosition}
	t.waiting = append(t.waiting, w)
	onPosition(len(t.waiting), slices.Clone(t.running))
	t.mu.Unlock()
	select {
	case <-w.admitted:
		return true, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.notifyPositions(i)
	} else {
		t.remove(image) // the turn came at the same moment
	}
	return true, ctx.Err()
}

func (t *pullQueue) leave(image string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(image)
}

// remove gives the place of a pull that ran to the next one.
func (t *pullQueue) remove(image string) {
	if i := slices.Index(t.running, image); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
	}
	if len(t.waiting) == 0 {
		return
	}
	next := t.waiting[0]
	t.waiting = t.waiting[1:]
	t.running = append(t.running, next.image)
	close(next.admitted)
	t.notifyPositions(0)
}

// notifyPositions tells those from the given place on where they stand now.
func (t *pullQueue) notifyPositions(from int) {
	for i, w := range t.waiting[from:] {
		w.onPosition(from+i+1, slices.Clone(t.running))
	}
}
