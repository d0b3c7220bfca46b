package up

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/instance"
)

// NewInstance prepares an instance of test/instance from the built programs; flags are
// further ones of `gantry up`. The instance is removed when the test ends, and reported when the
// test has failed. The test is skipped where real containers cannot run.
func NewInstance(t testing.TB, flags ...string) *instance.Instance {
	t.Helper()
	dir := binaries.Programs(t)
	i, err := instance.New(instance.Options{Binary: filepath.Join(dir, "gantry"), BinDir: dir, NodeIP: "127.0.0.1",
		Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(i.Report())
		}
		remove(t, i)
	})
	return i
}

// StartInstance starts i and waits two minutes at most for its API server.
func StartInstance(t testing.TB, i *instance.Instance) {
	t.Helper()
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := i.WaitAPI(ctx); err != nil {
		t.Fatal(err)
	}
}
