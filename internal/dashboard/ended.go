package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
)

// EndedSessions are the sessions that their persons ended before their time: a copied cookie is
// worth nothing from then on, after a restart too. Safe for concurrent use.
type EndedSessions struct {
	path string // where they are kept; empty: in memory alone

	mu      sync.Mutex
	until   map[string]time.Time                        // by id, until when a session would have lasted
	running map[string]map[*context.CancelFunc]struct{} // requests of sessions that go on
}

// ReadEnded reads the sessions kept in a file, which need not be there; an empty path keeps none.
// With an error the result is empty and can be used: which sessions were ended is not known then.
func ReadEnded(path string) (*EndedSessions, error) {
	e := &EndedSessions{path: path, until: map[string]time.Time{},
		running: map[string]map[*context.CancelFunc]struct{}{}}
	if path == "" {
		return e, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	kept := map[string]time.Time{}
	if err == nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return e, fmt.Errorf("ended sessions: %s: %w", path, err)
	}
	maps.Copy(e.until, kept)
	return e, nil
}

// add ends a session and its requests; those that would have ended before now are forgotten.
func (e *EndedSessions) add(id string, until, now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.until, func(_ string, at time.Time) bool { return at.Before(now) })
	e.until[id] = until
	for cancel := range e.running[id] {
		(*cancel)()
	}
	if e.path == "" {
		return nil
	}
	raw, err := json.Marshal(e.until)
	if err != nil {
		return fmt.Errorf("ended sessions: %w", err)
	}
	next := e.path + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return fmt.Errorf("ended sessions: %w", err)
	}
	return os.Rename(next, e.path)
}

// run begins a request of a session: its context ends with the session. ok is false when that was
// ended; else done is called when the request is answered.
func (e *EndedSessions) run(ctx context.Context, is sealed) (_ context.Context, done func(), ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ended := e.until[is.ID]; ended {
		return ctx, nil, false
	}
	ctx, cancel := context.WithDeadline(ctx, is.Until)
	if e.running[is.ID] == nil {
		e.running[is.ID] = map[*context.CancelFunc]struct{}{}
	}
	e.running[is.ID][&cancel] = struct{}{}
	return ctx, func() {
		cancel()
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(e.running[is.ID], &cancel); len(e.running[is.ID]) == 0 {
			delete(e.running, is.ID)
		}
	}, true
}
