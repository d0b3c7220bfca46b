package noderole

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/containerd"
)

// Imports before the first listener are reported too, and a broken archive by name.
func TestImportsOfTheImagesDirectoryAreEvents(t *testing.T) {
	n, r := newImportQueue(), record.NewFakeRecorder(10)
	n.add(containerd.ImportedArchive{File: "/d/images/a.tar", Names: []string{"reg.test/a:1", "reg.test/b:1"}})
	n.add(containerd.ImportedArchive{File: "/d/images/broken.tar",
		Err: errors.New("image archive /d/images/broken.tar: unexpected EOF")})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { n.publish(ctx, r, "n1"); close(ended) }()
	for _, want := range []string{
		"Normal ImageArchiveImported Imported reg.test/a:1, reg.test/b:1 from /d/images/a.tar",
		"Warning ImageArchiveFailed image archive /d/images/broken.tar: unexpected EOF",
	} {
		if got := <-r.Events; !strings.HasPrefix(got, want) {
			t.Errorf("event %q, want %q", got, want)
		}
	}
	cancel()
	<-ended
}
