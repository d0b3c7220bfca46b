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

// timeFormat is what --timestamps prints: nine decimals always, so that columns align (upstream: RFC3339NanoFixed).
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

// Running says whether the container may still write; following ends when it may not and everything is read.
type Running func(ctx context.Context) (bool, error)

// Request is one reading.
type Request struct {
	Path    string
	Options Options
	Running Running   // needed to follow
	Out     io.Writer // stdout; nil leaves it out
	Err     io.Writer // stderr; nil leaves it out
}

// Read copies the log to the request's writers.
func Read(ctx context.Context, q Request) error {
	path, o := q.Path, q.Options
	f, aside, err := open(path)
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %w", path, err)
	}
	r := &reader{path: path, o: o, running: q.Running, w: &writer{out: q.Out, errOut: q.Err, o: o, left: o.Bytes}}
	defer func() { _ = r.f.Close() }()
	r.use(f)
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
		return ignoreFull(r.follow(ctx))
	}
	if err := r.drain(); err != nil || !aside {
		return ignoreFull(err)
	}
	return ignoreFull(r.rotate())
}

// open opens a log. One that was put aside a moment ago, so that nothing stands in the new file yet, is read from the old file on: a rotation hides no last words.
func open(path string) (f *os.File, aside bool, err error) {
	f, err = os.Open(path)
	if err == nil {
		if info, err := f.Stat(); err != nil || info.Size() > 0 {
			return f, false, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	older, _ := filepath.Glob(path + ".*") // names end in the time of the rotation, so the last is the newest; compressed ones are older still
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

// errFull ends reading when the limit of bytes is reached.
var errFull = errors.New("limit of bytes reached")

func ignoreFull(err error) error {
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

type reader struct {
	path    string
	o       Options
	running Running
	w       *writer

	f    *os.File
	buf  *bufio.Reader
	rest []byte // a line whose end is not written yet
}

func (r *reader) use(f *os.File) {
	r.f, r.buf, r.rest = f, bufio.NewReaderSize(f, 32<<10), nil
}

// drain writes every complete line up to the end of the file; what follows the last newline waits for its end.
func (r *reader) drain() error {
	for {
		part, err := r.buf.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			r.rest = append(r.rest, part...)
			continue
		case err == io.EOF:
			r.rest = append(r.rest, part...)
			return nil
		case err != nil:
			return fmt.Errorf("log file %q: %w", r.path, err)
		}
		raw := part[:len(part)-1]
		if len(r.rest) > 0 {
			raw = append(r.rest, raw...)
			r.rest = nil
		}
		if err := r.line(raw); err != nil {
			return err
		}
	}
}

// line writes one; a damaged one (a machine that lost power) is left out.
func (r *reader) line(raw []byte) error {
	l, err := parse(raw)
	if err != nil || l.at.Before(r.o.Since) {
		return nil
	}
	return r.w.write(l)
}

// writer puts lines out by stream, with timestamps, up to the limit.
type writer struct {
	out, errOut io.Writer
	o           Options
	left        int64           // negative: no limit
	within      map[string]bool // streams whose last line was partial: no timestamp in the middle
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
	if w.within == nil {
		w.within = map[string]bool{}
	}
	if w.o.Timestamps && !w.within[l.stream] {
		text = append(append([]byte(l.at.Format(timeFormat)), ' '), text...)
	}
	w.within[l.stream] = l.partial
	if w.left >= 0 && int64(len(text)) > w.left {
		text = text[:w.left]
	}
	n, err := to.Write(text)
	if err != nil {
		return err
	}
	if w.left >= 0 {
		if w.left -= int64(n); w.left == 0 {
			return errFull
		}
	}
	return nil
}
