package images

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestImagesAreWellFormedAndRepeatable(t *testing.T) {
	for name, make := range map[string]Make{"busybox": Busybox, "nonroot": NonRoot, "httpd": Httpd,
		"agnhost": Agnhost} {
		first, err := make()
		if err != nil {
			t.Fatalf("%s: got error %v, want none", name, err)
		}
		if err := validate.Image(first); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
		second, err := make()
		if err != nil {
			t.Fatal(err)
		}
		a, _ := first.Digest()
		b, _ := second.Digest()
		if a != b {
			t.Errorf("%s: %s, then %s", name, a, b)
		}
	}
}

// No two names stand for one image: what happens to one (its credentials, its removal) would
// happen to the other.
func TestEveryStandardNameHasContentOfItsOwn(t *testing.T) {
	names := map[string]string{}
	for tag, make := range Select(Standard(), "docker.io/library/busybox:1.28", "docker.io/library/busybox:1.37",
		"registry.example/busybox:1.37", "registry.example/fresh:1", "registry.fixture.test:5000/busybox:1.35") {
		img, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: got error %v, want none", tag, err)
		}
		id, err := img.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := names[id.String()]; taken {
			t.Errorf("%s and %s are one image", tag, other)
		}
		names[id.String()] = tag
	}
}

func TestEveryStandardNameParses(t *testing.T) {
	for tag := range Standard() {
		if _, err := name.ParseReference(tag); err != nil {
			t.Error(err)
		}
	}
}

func TestRegistryServesWhatWasPushed(t *testing.T) {
	r, err := Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Push("library/busybox:1.28", Busybox); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(r.Addr+"/library/busybox:1.28", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(img)
	defer files.Close()
	if n, err := io.Copy(io.Discard, files); err != nil || n < 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	dir := t.TempDir()
	if err := r.Mirror(dir, "docker.io"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "docker.io/hosts.toml")); err != nil {
		t.Error(err)
	}
}
