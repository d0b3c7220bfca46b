package cgroup

import (
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// buffers are for readFile; most files of a cgroup fit.
var buffers = sync.Pool{New: func() any { return new([4096]byte) }}

func read(dir, name string) (string, error) {
	s, err := readFile(filepath.Join(dir, name))
	return strings.TrimSpace(s), err
}

// readFile is os.ReadFile with less than half of its system calls: a file of a cgroup has no size
// worth asking for and is never waited for. A node's cgroups are read by the hundreds.
func readFile(name string) (string, error) {
	fd, err := retried(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	buffer := buffers.Get().(*[4096]byte)
	defer buffers.Put(buffer)
	text := ""
	for {
		n, err := retried(func() (int, error) { return unix.Read(fd, buffer[:]) })
		if err != nil {
			return text, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		text += string(buffer[:n])
	}
}

// retried calls f until no signal interrupts it.
func retried(f func() (int, error)) (n int, err error) {
	for {
		if n, err = f(); err != unix.EINTR {
			return n, err
		}
	}
}

// write never creates a file: one that does not exist means that the controller does not exist.
func write(dir, name, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// readUint returns 0 if the file does not exist or contains "max".
func readUint(dir, name string) uint64 {
	s, err := read(dir, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func readStat(dir, name string) map[string]uint64 {
	s, err := read(dir, name)
	if err != nil {
		return nil
	}
	m := map[string]uint64{}
	for line := range strings.Lines(s) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if n, err := strconv.ParseUint(v, 10, 64); err == nil {
				m[k] = n
			}
		}
	}
	return m
}

// statField is the value of a line "name value"; 0 if there is none.
func statField(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(v, " ") {
			n, _ := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

func subtract(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

// bounded turns v1's "no limit", the largest multiple of the page size, into 0.
func bounded(n uint64) uint64 {
	if n >= math.MaxInt64/4096*4096 {
		return 0
	}
	return n
}

func orMax(n int64) string {
	if n < 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

// pageName formats a huge page size as in the kernel's file names: 2MB, 1GB.
func pageName(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB"}
	i := 0
	for bytes >= 1024 && bytes%1024 == 0 && i < len(units)-1 {
		bytes, i = bytes/1024, i+1
	}
	return strconv.FormatInt(bytes, 10) + units[i]
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
