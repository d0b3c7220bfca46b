package ring

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
)

// maxLine bounds an encoded entry when reading; a longer line counts as damaged.
const maxLine = 64 << 20

// disk stores lines in two segments: the current one and the full one before it.
type disk struct {
	dir    string
	limit  int // bytes of a segment
	file   *os.File
	size   int
	broken bool // a write failed: the journal continues in memory; logged once
}

func openDisk(dir string, limit int) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	d := &disk{dir: dir, limit: limit}
	return d, d.open()
}

func (d *disk) current() string  { return filepath.Join(d.dir, "current.jsonl") }
func (d *disk) previous() string { return filepath.Join(d.dir, "previous.jsonl") }

func (d *disk) open() error {
	f, err := os.OpenFile(d.current(), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d.file, d.size = f, int(info.Size())
	return d.endLine()
}

// endLine terminates a line that a killed process left incomplete, so that the next entry starts a
// new one.
func (d *disk) endLine() error {
	if d.size == 0 {
		return nil
	}
	last := make([]byte, 1)
	if _, err := d.file.ReadAt(last, int64(d.size-1)); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	n, err := d.file.Write([]byte{'\n'})
	d.size += n
	return err
}

// replay calls take for each stored line, oldest first.
func (d *disk) replay(take func(line []byte)) error {
	for _, path := range []string{d.previous(), d.current()} {
		if err := readLines(path, take); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func readLines(path string, take func([]byte)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if n := len(line); n > 1 && n < maxLine {
			take(line[:n-1])
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// append writes whole lines and starts a new segment when the current one is full.
func (d *disk) append(lines []byte) {
	if d.broken {
		return
	}
	if d.size > d.limit {
		if err := d.rotate(); err != nil {
			d.fail(err)
			return
		}
	}
	n, err := d.file.Write(lines)
	d.size += n
	if err != nil {
		d.fail(err)
	}
}

func (d *disk) rotate() error {
	if err := d.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(d.current(), d.previous()); err != nil {
		return err
	}
	return d.open()
}

func (d *disk) fail(err error) {
	d.broken = true
	klog.ErrorS(err,
		"The journal can no longer be written to disk and goes on in memory; free space or mend the folder and restart",
		"folder", d.dir)
}

func (d *disk) close() error { return d.file.Close() }
