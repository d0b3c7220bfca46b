// Package recorded reads what upstream's components answered to random scenarios, as programs below
// hack recorded it: JSON values one after the other, compressed by gzip.
package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"testing"
)

// All yields the values of raw, or of the file that the environment variable env names. The test
// fails at once where they cannot be read.
func All[T any](t testing.TB, raw []byte, env string) iter.Seq[T] {
	t.Helper()
	if file := os.Getenv(env); file != "" {
		var err error
		if raw, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(z)
	return func(yield func(T) bool) {
		for {
			var v T
			if err := dec.Decode(&v); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			if !yield(v) {
				return
			}
		}
	}
}

// TempDir makes a directory in memory, where there is such a file system, for replays that sync
// many small files; it is removed when the returned function is called.
func TempDir(t testing.TB, prefix string) (dir string, remove func()) {
	t.Helper()
	memory := "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		memory = ""
	}
	dir, err := os.MkdirTemp(memory, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
