package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// checkInterval is how often a quiet log asks whether its container still runs.
const checkInterval = 500 * time.Millisecond

// follow drains the file each time it grows, goes over to the new file after a rotation, and ends
// with the container.
func (r *reader) follow(ctx context.Context) error {
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("follow log file %q: %w", r.path, err)
	}
	defer watch.Close()
	// The directory tells of the new file as well; events of the other files in it are left out
	// below.
	real, err := filepath.EvalSymlinks(r.path)
	if err != nil {
		return fmt.Errorf("follow log file %q: %w", r.path, err)
	}
	if err := watch.Add(filepath.Dir(real)); err != nil {
		return fmt.Errorf("follow log file %q: %w", r.path, err)
	}
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for {
		if err := r.readAvailable(); err != nil {
			return err
		}
		if err := r.rotate(); err != nil {
			return err
		}
		ended, err := r.wait(ctx, watch, check.C, real)
		if err != nil {
			return ignoreEOF(err)
		}
		if ended {
			if err := r.readAvailable(); err != nil {
				return err
			}
			if err := r.rotate(); err != nil {
				return err
			}
			return r.readAvailable()
		}
	}
}

// ignoreEOF: a client that went away is no failure.
func ignoreEOF(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// wait returns when there may be something to read; over says that the container has ended.
func (r *reader) wait(ctx context.Context, watch *fsnotify.Watcher, check <-chan time.Time,
	name string) (ended bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, open := <-watch.Events:
			if !open {
				return false, errors.New("log watch ended")
			}
			if e.Name == name && (e.Has(fsnotify.Write) || e.Has(fsnotify.Create)) {
				return false, nil
			}
		case err := <-watch.Errors:
			return false, err
		case <-check:
			up, err := r.isRunning(ctx)
			if err != nil {
				return false, err
			}
			return !up, nil
		}
	}
}

// rotate goes over to the new file when the path no longer names the open one. The old one is read
// to its end first.
func (r *reader) rotate() error {
	now, err := os.Stat(r.path)
	if os.IsNotExist(err) {
		return nil // between the renaming and the runtime's reopening
	}
	if err != nil {
		return fmt.Errorf("log file %q: %w", r.path, err)
	}
	was, err := r.file.Stat()
	if err != nil {
		return fmt.Errorf("log file %q: %w", r.path, err)
	}
	if os.SameFile(now, was) {
		return nil
	}
	if err := r.readAvailable(); err != nil {
		return err
	}
	next, err := os.Open(r.path)
	if err != nil {
		return fmt.Errorf("log file %q: %w", r.path, err)
	}
	_ = r.file.Close()
	r.open(next)
	return r.readAvailable()
}
