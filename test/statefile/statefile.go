// Package statefile brings a checkpoint file back to what it was at a moment, for tests that kill
// its writer between two writes.
package statefile

import (
	"os"
	"testing"
)

// Read is what the file at path has; nil when there is none.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return raw
}

// Restore makes the file what Read returned: it removes the file for nil.
func Restore(t testing.TB, path string, raw []byte) {
	t.Helper()
	err := os.Remove(path)
	if raw != nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
