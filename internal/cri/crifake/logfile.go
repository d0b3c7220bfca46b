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
	log  *logFile
	name string
	rest []byte
}

// Write logs complete lines and keeps the rest.
func (s *logStream) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		i := bytes.IndexByte(s.rest, '\n')
		switch {
		case i >= 0 && i <= maxLogLine:
			s.log.write(s.name, "F", s.rest[:i])
			s.rest = s.rest[i+1:]
		case len(s.rest) > maxLogLine:
			s.log.write(s.name, "P", s.rest[:maxLogLine])
			s.rest = s.rest[maxLogLine:]
		default:
			return len(b), nil
		}
	}
}

func (s *logStream) flush() {
	if len(s.rest) > 0 {
		s.log.write(s.name, "F", s.rest)
		s.rest = nil
	}
}

// fan copies output to the log and to whoever is attached.
type fan struct {
	mu     sync.Mutex
	log    *logStream
	others map[io.Writer]bool
	closed bool
}

func newFan(log *logStream) *fan { return &fan{log: log, others: map[io.Writer]bool{}} }

// Write never fails: an attached client that went away is forgotten.
func (f *fan) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return len(b), nil
	}
	_, _ = f.log.Write(b)
	for w := range f.others {
		if _, err := w.Write(b); err != nil {
			delete(f.others, w)
		}
	}
	return len(b), nil
}

func (f *fan) attach(w io.Writer) (detach func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others[w] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.others, w)
	}
}

func (f *fan) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.log.flush()
	}
}
