package pluginmanager

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// retryWatch is how soon the directory is looked at again when the kernel does not watch it.
const retryWatch = 10 * time.Second

// watch follows the directory until ctx ends. Where the kernel gives no watch (its limits of
// inotify instances and watches), the directory is read every ten seconds.
func (m *Manager) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			err = m.follow(ctx, w)
			_ = w.Close()
		}
		if err == nil {
			continue
		}
		m.log.Error(err, "The directory of plugins' sockets is not watched, reading it from time to time", "dir",
			m.dir)
		if err := m.scan(ctx, nil); err != nil {
			return err
		}
		select {
		case <-time.After(retryWatch):
		case <-ctx.Done():
		}
	}
	return nil
}

// follow reads the directory and then what changes, until ctx ends or changes were lost.
func (m *Manager) follow(ctx context.Context, w *fsnotify.Watcher) error {
	if err := m.scan(ctx, w); err != nil {
		return err
	}
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				return nil
			}
			m.handle(ctx, w, e)
		case err, ok := <-w.Errors:
			if !ok {
				return nil
			}
			m.log.Error(err, "Changes of the directory of plugins' sockets were lost, reading it anew", "dir", m.dir)
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Manager) handle(ctx context.Context, w *fsnotify.Watcher, e fsnotify.Event) {
	if hidden(e.Name) {
		return
	}
	switch {
	case e.Has(fsnotify.Create):
		if st, err := os.Lstat(e.Name); err != nil {
			return
		} else if st.IsDir() {
			if err := m.walk(ctx, w, e.Name, map[string]bool{}); err != nil {
				m.log.Error(err, "A directory of plugins' sockets cannot be read", "dir", e.Name)
			}
		} else if st.Mode()&fs.ModeSocket != 0 {
			m.socketSeen(ctx, e.Name)
		}
	case e.Has(fsnotify.Remove), e.Has(fsnotify.Rename):
		m.socketsGone(func(path string) bool {
			return path == e.Name || strings.HasPrefix(path, e.Name+string(filepath.Separator))
		})
	}
}

// scan brings what is known to what is on disk.
func (m *Manager) scan(ctx context.Context, w *fsnotify.Watcher) error {
	seen := map[string]bool{}
	if err := m.walk(ctx, w, m.dir, seen); err != nil {
		return err
	}
	m.socketsGone(func(path string) bool { return !seen[path] })
	return nil
}

// walk watches dir and the directories below, and takes the sockets in. A directory is watched
// before it is read: a socket that comes meanwhile is seen twice rather than never.
func (m *Manager) walk(ctx context.Context, w *fsnotify.Watcher, dir string, seen map[string]bool) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != m.dir:
			return nil
		case err != nil:
			return err
		case path != m.dir && hidden(path):
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.IsDir() && w != nil:
			if err := w.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case e.Type()&fs.ModeSocket != 0:
			seen[path] = true
			m.socketSeen(ctx, path)
		}
		return nil
	})
}

// hidden names are not looked at, as upstream.
func hidden(path string) bool { return strings.HasPrefix(filepath.Base(path), ".") }
