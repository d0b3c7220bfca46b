// Package binaries finds what `make build` made, for tests that run real containers.
//
// In: nothing. Out: directories, or a skipped test.
package binaries

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir is the directory (NextToTest) with runc, the shim, the pause program and cni/gantry-cni. The
// test is skipped without root, with GANTRY_NO_CONTAINERS set, or when they are not built.
func Dir(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("needs root: runs real containers")
	}
	dir := NextToTest()
	if _, err := os.Stat(filepath.Join(dir, "cni/gantry-cni")); err != nil {
		t.Skip("runs real containers: build what they need with `make runtime`")
	}
	return dir
}

// Gantry is build/bin/gantry; the test is skipped when it is not built.
func Gantry(t testing.TB) string {
	t.Helper()
	file := filepath.Join(Dir(t), "gantry")
	if _, err := os.Stat(file); err != nil {
		t.Skip("runs the built program: make build")
	}
	return file
}

// NextToTest is GANTRY_BIN when it is set, else build/bin: where runc, the shim, the pause program
// and the CNI plugin are for a gantry that was built elsewhere.
func NextToTest() string {
	if dir := os.Getenv("GANTRY_BIN"); dir != "" {
		return dir
	}
	return filepath.Join(Root(), "build/bin")
}

// Root is the top of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Programs is the directory of gantry and of all that real containers need beside it: GANTRY_BIN
// when it is set, else what `make build` made. The test is skipped without root, with
// GANTRY_NO_CONTAINERS set, or when one of them is missing.
func Programs(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("runs real containers: needs root, and GANTRY_NO_CONTAINERS unset")
	}
	dir, err := filepath.Abs(NextToTest())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gantry", "runc", "containerd-shim-runc-v2", "pause", "cni/gantry-cni"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Skipf("needs %s: run `make build` first", filepath.Join(dir, name))
		}
	}
	return dir
}
