package pull

import (
	"context"
	"slices"
	"sync"
)

// turns let pulls run side by side up to a limit, first come first served.
type turns struct {
	limit int // 0 is no bound

	mu      sync.Mutex
	running []string // images
	waiting []*turn
}

// turn is one pull that waits for its own.
type turn struct {
	image string
	come  chan struct{}                     // closed when the pull may run
	told  func(place int, running []string) // called with turns.mu held, whenever the place in the queue changes
}

// enter waits until the image may be pulled. told hears the place in the queue whenever it changes, never when there is none to wait in.
func (t *turns) enter(ctx context.Context, image string, told func(place int, running []string)) (waited bool, err error) {
	t.mu.Lock()
	if t.limit == 0 || len(t.running) < t.limit {
		t.running = append(t.running, image)
		t.mu.Unlock()
		return false, nil
	}
	w := &turn{image: image, come: make(chan struct{}), told: told}
	t.waiting = append(t.waiting, w)
	told(len(t.waiting), slices.Clone(t.running))
	t.mu.Unlock()
	select {
	case <-w.come:
		return true, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.tell(i)
	} else {
		t.end(image) // the turn came at the same moment
	}
	return true, ctx.Err()
}

func (t *turns) leave(image string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(image)
}

// end gives the place of a pull that ran to the next one.
func (t *turns) end(image string) {
	if i := slices.Index(t.running, image); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
	}
	if len(t.waiting) == 0 {
		return
	}
	next := t.waiting[0]
	t.waiting = t.waiting[1:]
	t.running = append(t.running, next.image)
	close(next.come)
	t.tell(0)
}

// tell tells those from the given place on where they stand now.
func (t *turns) tell(from int) {
	for i, w := range t.waiting[from:] {
		w.told(from+i+1, slices.Clone(t.running))
	}
}
