package cgroup

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func read(dir, name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(b)), err
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
