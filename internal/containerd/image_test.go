package containerd_test

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/test/images"
)

// An archive with an image that this machine cannot run is refused with the image, its platform and
// what to do, and CRI does not list that image.
func TestImagesOfOtherPlatformsAreRefused(t *testing.T) {
	n := newNode(t)
	child := n.start()
	defer child.Close()
	for _, c := range []struct{ os, arch, want string }{
		{"linux", "s390x", "image registry.test/other:1 is built for linux/s390x, want linux/"},
		{"windows", "amd64", "image registry.test/other:1 is built for windows/amd64, want linux/"},
		{"linux", "", `its configuration has os "linux" and architecture "", want linux/`},
		{"", "", `and architecture "", want linux/`},
	} {
		other := func() (v1.Image, error) {
			img, err := images.Busybox()
			if err != nil {
				return nil, err
			}
			file, err := img.ConfigFile()
			if err != nil {
				return nil, err
			}
			file = file.DeepCopy()
			file.OS, file.Architecture = c.os, c.arch
			return mutate.ConfigFile(img, file)
		}
		file := filepath.Join(t.TempDir(), "other.tar")
		if err := images.Archive(file, map[string]images.Make{"registry.test/other:1": other}); err != nil {
			t.Fatal(err)
		}
		if _, err := child.ImportImage(t.Context(), file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("an image for %q/%q: got %v, want %q", c.os, c.arch, err, c.want)
		}
		list, err := n.client().img.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, img := range list.Images {
			for _, tag := range img.RepoTags {
				if tag == "registry.test/other:1" {
					t.Errorf("an image for %q/%q: got it listed, want it gone", c.os, c.arch)
				}
			}
		}
	}
}
