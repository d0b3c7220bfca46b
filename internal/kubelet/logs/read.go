package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
)

// timeFormat is what --timestamps prints: nine decimals always, so that columns align (upstream:
// RFC3339NanoFixed).
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Options say which part of the log is wanted.
type Options struct {
	Since      time.Time // zero: from the beginning
	Tail       int64     // last lines; negative: all
	Bytes      int64     // at most so many bytes are written; negative: no limit
	Timestamps bool
	Follow     bool
}

// FromPod translates what a client asked for; relative times count from now.
func FromPod(o *v1.PodLogOptions, now time.Time) Options {
	out := Options{Tail: -1, Bytes: -1, Timestamps: o.Timestamps, Follow: o.Follow}
	if o.TailLines != nil {
		out.Tail = *o.TailLines
	}
	if o.LimitBytes != nil {
		out.Bytes = *o.LimitBytes
	}
	if o.SinceSeconds != nil {
		out.Since = now.Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	if o.SinceTime != nil {
		out.Since = o.SinceTime.Time
	}
	return out
}

// IsRunning says whether the container may still write; following ends when it may not and
// everything is read.
type IsRunning func(ctx context.Context) (bool, error)

// Request is one reading.
type Request struct {
	Path      string
	Options   Options
	IsRunning IsRunning // needed to follow
	Out       io.Writer // stdout; nil leaves it out
	Err       io.Writer // stderr; nil leaves it out
}

// Read copies the log to the request's writers.
func Read(ctx context.Context, q Request) error {
	path, o := q.Path, q.Options
	f, rotated, err := open(path)
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %w", path, err)
	}
	r := &reader{path: path, opts: o, isRunning: q.IsRunning, out: &writer{out: q.Out, errOut: q.Err, opts: o,
		remaining: o.Bytes}}
	defer func() { _ = r.file.Close() }()
	r.open(f)
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("log file %q: %w", path, err)
	}
	start, err := tailStart(f, info.Size(), o.Tail)
	if err != nil {
		return fmt.Errorf("log file %q: %w", path, err)
	}
	if _, err := f.Seek(start, io.SeekStart); err != nil {
		return fmt.Errorf("log file %q: %w", path, err)
	}
	if o.Follow {
		return ignoreLimitReached(r.follow(ctx))
	}
	if err := r.readAvailable(); err != nil || !rotated {
		return ignoreLimitReached(err)
	}
	return ignoreLimitReached(r.rotate())
}

// open opens a log. One that was put aside a moment ago, so that nothing stands in the new file
// yet, is read from the old file on: a rotation hides no last lines.
func open(path string) (f *os.File, rotated bool, err error) {
	f, err = os.Open(path)
	if err == nil {
		if info, err := f.Stat(); err != nil || info.Size() > 0 {
			return f, false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	// names end in the time of the rotation, so the last is the newest; compressed ones are older
	// still
	older, _ := filepath.Glob(path + ".*")
	for i := len(older) - 1; i >= 0; i-- {
		if ext := filepath.Ext(older[i]); ext == ".gz" || ext == ".tmp" {
			continue
		}
		if old, oldErr := os.Open(older[i]); oldErr == nil {
			if f != nil {
				_ = f.Close()
			}
			return old, true, nil
		}
	}
	return f, false, err
}

// errLimitReached ends reading when the limit of bytes is reached.
var errLimitReached = errors.New("limit of bytes reached")

func ignoreLimitReached(err error) error {
	if errors.Is(err, errLimitReached) {
		return nil
	}
	return err
}

type reader struct {
	path      string
	opts      Options
	isRunning IsRunning
	out       *writer

	file    *os.File
	buf     *bufio.Reader
	partial []byte // a line whose end is not written yet
}

func (r *reader) open(f *os.File) {
	r.file, r.buf, r.partial = f, bufio.NewReaderSize(f, 32<<10), nil
}

// readAvailable writes every complete line up to the end of the file; what follows the last newline
// waits for its end.
func (r *reader) readAvailable() error {
	for {
		part, err := r.buf.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			r.partial = append(r.partial, part...)
			continue
		case err == io.EOF:
			r.partial = append(r.partial, part...)
			return nil
		case err != nil:
			return fmt.Errorf("log file %q: %w", r.path, err)
		}
		raw := part[:len(part)-1]
		if len(r.partial) > 0 {
			raw = append(r.partial, raw...)
			r.partial = nil
		}
		if err := r.line(raw); err != nil {
			return err
		}
	}
}

// line writes one; a damaged one (a machine that lost power) is left out.
func (r *reader) line(raw []byte) error {
	l, err := parse(raw)
	if err != nil || l.at.Before(r.opts.Since) {
		return nil
	}
	return r.out.write(l)
}

// writer puts lines out by stream, with timestamps, up to the limit.
type writer struct {
	out, errOut    io.Writer
	opts           Options
	remaining      int64           // negative: no limit
	partialStreams map[string]bool // streams whose last line was partial: no timestamp in the middle
}

func (w *writer) write(l line) error {
	to := w.out
	if l.stream == "stderr" {
		to = w.errOut
	}
	if to == nil {
		return nil
	}
	text := l.text
	if w.partialStreams == nil {
		w.partialStreams = map[string]bool{}
	}
	if w.opts.Timestamps && !w.partialStreams[l.stream] {
		text = append(append([]byte(l.at.Format(timeFormat)), ' '), text...)
	}
	w.partialStreams[l.stream] = l.partial
	if w.remaining >= 0 && int64(len(text)) > w.remaining {
		text = text[:w.remaining]
	}
	n, err := to.Write(text)
	if err != nil {
		return err
	}
	if w.remaining >= 0 {
		if w.remaining -= int64(n); w.remaining == 0 {
			return errLimitReached
		}
	}
	return nil
}
