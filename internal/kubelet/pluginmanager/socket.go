package pluginmanager

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Failed registrations are tried again after half a second, then after twice as long each time.
const (
	initialDelay = 500 * time.Millisecond
	maxDelay     = 2*time.Minute + 2*time.Second
)

// socket is one socket below the directory, served by one goroutine as long as it is there or its
// plugin is registered.
type socket struct {
	path   string
	wake   chan struct{}
	plugin Plugin // guarded by Manager.mu
	// present and made say what is on disk; guarded by Manager.mu
	present bool
	made    fileID // which file it is
}

// fileID tells one socket file from the one that takes its place.
type fileID struct {
	inode uint64
	made  int64 // nanoseconds
}

func idOf(path string) (id fileID, ok bool) {
	st, err := os.Lstat(path)
	if err != nil {
		return id, false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	return fileID{sys.Ino, st.ModTime().UnixNano()}, true
}

// socketSeen takes in a socket that is there. One that is known already, and the same, is left in
// peace.
func (m *Manager) socketSeen(ctx context.Context, path string) {
	id, ok := idOf(path)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sockets[path]
	if s == nil {
		s = &socket{path: path, wake: make(chan struct{}, 1), present: true, made: id,
			plugin: Plugin{Socket: path, Since: time.Now()}}
		m.sockets[path] = s
		m.workers.Go(func() { m.serve(ctx, s) })
		return
	}
	if s.present && s.made == id {
		return
	}
	s.present, s.made = true, id
	s.wakeUp()
}

// socketsGone drops the sockets that are there no longer.
func (m *Manager) socketsGone(gone func(path string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, s := range m.sockets {
		if s.present && gone(path) {
			s.present = false
			s.wakeUp()
		}
	}
}

func (s *socket) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve brings the registration of one socket to what is on disk, until the socket is gone and
// nothing is registered, or ctx ends.
func (m *Manager) serve(ctx context.Context, s *socket) {
	var registered fileID
	var in *Plugin // as registered with its handler
	for failures := 0; ; {
		present, made, left := m.observe(s, in != nil)
		if left {
			return
		}
		if in != nil && (!present || made != registered) {
			m.deRegister(*in)
			in, failures = nil, 0
			m.update(s, func(p *Plugin) { *p = Plugin{Socket: s.path} })
			continue
		}
		var retry <-chan time.Time
		if in == nil {
			p, err := m.register(ctx, s.path)
			m.update(s, func(now *Plugin) { *now = p })
			if err == nil {
				in, registered, failures = &p, made, 0
			} else if ctx.Err() == nil {
				m.log.Error(err, "A plugin is not registered, trying again", "socket", s.path, "plugin", p.Name,
					"type", p.Type)
				failures++
				retry = time.After(min(initialDelay<<min(failures-1, 10), maxDelay))
			}
		}
		select {
		case <-s.wake:
			failures = 0
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// observe is what is on disk. A socket that is gone is forgotten with the answer left, unless it is
// registered.
func (m *Manager) observe(s *socket, registered bool) (present bool, made fileID, left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !s.present && !registered {
		delete(m.sockets, s.path)
		close(m.changed)
		m.changed = make(chan struct{})
		return false, fileID{}, true
	}
	return s.present, s.made, false
}
