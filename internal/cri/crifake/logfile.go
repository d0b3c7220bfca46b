package crifake

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const maxLogLine = 16 << 10 // longer lines are split into partial ones, as containerd does

// logFile writes the CRI log format: time, stream, P or F, line.
type logFile struct {
	mu sync.Mutex
	f  *os.File // nil: the container has no log
}

func openLog(path string) (*logFile, error) {
	l := &logFile{}
	if path == "" {
		return l, nil
	}
	return l, l.reopen(path)
}

func (l *logFile) reopen(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("failed to create container log file: %w", err)
	}
	if l.f != nil {
		_ = l.f.Close()
	}
	l.f = f
	return nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		_ = l.f.Close()
		l.f = nil
	}
}

func (l *logFile) write(stream, tag string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return
	}
	_, _ = fmt.Fprintf(l.f, "%s %s %s %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, line)
}

func (l *logFile) stream(name string) *logStream { return &logStream{log: l, name: name} }

// logStream collects one stream into lines.
type logStream struct {
	log     *logFile
	name    string
	partial []byte
}

// Write logs complete lines and keeps the rest.
func (s *logStream) Write(b []byte) (int, error) {
	s.partial = append(s.partial, b...)
	for {
		i := bytes.IndexByte(s.partial, '\n')
		switch {
		case i >= 0 && i <= maxLogLine:
			s.log.write(s.name, "F", s.partial[:i])
			s.partial = s.partial[i+1:]
		case len(s.partial) > maxLogLine:
			s.log.write(s.name, "P", s.partial[:maxLogLine])
			s.partial = s.partial[maxLogLine:]
		default:
			return len(b), nil
		}
	}
}

func (s *logStream) flush() {
	if len(s.partial) > 0 {
		s.log.write(s.name, "F", s.partial)
		s.partial = nil
	}
}

// fanOut copies output to the log and to whoever is attached.
type fanOut struct {
	mu       sync.Mutex
	log      *logStream
	attached map[io.Writer]bool
	closed   bool
}

func newFanOut(log *logStream) *fanOut { return &fanOut{log: log, attached: map[io.Writer]bool{}} }

// Write never fails: clients that disconnected are dropped.
func (f *fanOut) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return len(b), nil
	}
	_, _ = f.log.Write(b)
	for w := range f.attached {
		if _, err := w.Write(b); err != nil {
			delete(f.attached, w)
		}
	}
	return len(b), nil
}

func (f *fanOut) attach(w io.Writer) (detach func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attached[w] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.attached, w)
	}
}

func (f *fanOut) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.log.flush()
	}
}
