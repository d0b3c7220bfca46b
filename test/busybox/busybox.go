// Package busybox starts `gantry up` with busybox as its only image, for tests that need a few Pods
// with real containers.
package busybox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/test/up"
)

// Image is the name of the image.
const Image = "docker.io/library/busybox:1.37"

// Up starts an instance (up.NewInstance) that has the image, and waits for its API server; flags
// are further ones of `gantry up`.
func Up(t testing.TB, flags ...string) *instance.Instance {
	t.Helper()
	i := up.NewInstance(t, flags...)
	at := filepath.Join(i.Dir, "images")
	expect.NoError(t, os.MkdirAll(at, 0o755))
	expect.NoError(t, images.Archive(filepath.Join(at, "busybox.tar"), images.Select(images.Standard(), Image)))
	up.StartInstance(t, i)
	return i
}
