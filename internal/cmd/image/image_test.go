package image

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

// Several archives are imported by one command; one that is broken is named and keeps no other
// back.
func TestSeveralImageArchivesAreImported(t *testing.T) {
	var out bytes.Buffer
	err := importAll(t.Context(), []string{"a.tar", "broken.tar", "b.tar"}, &out,
		func(_ context.Context, file string) ([]string, error) {
			if file == "broken.tar" {
				return nil, errors.New("no archive")
			}
			return []string{"docker.io/library/" + strings.TrimSuffix(file, ".tar") + ":1"}, nil
		})
	if err == nil || err.Error() != "import broken.tar: no archive" {
		t.Errorf("error: %v", err)
	}
	if got := out.String(); got != "imported docker.io/library/a:1\nimported docker.io/library/b:1\n" {
		t.Errorf("printed %q, want %q", got, "imported docker.io/library/a:1\nimported docker.io/library/b:1\n")
	}
}

func TestImageImportWantsAFile(t *testing.T) {
	var out, errOut bytes.Buffer
	io := cli.IO{Out: &out, Err: &errOut}
	if code := cli.Execute(t.Context(), cli.Root(io, New(io)), []string{"image", "import"}, &errOut); code != 2 ||
		!strings.Contains(errOut.String(), "wants the path of an image archive") {
		t.Errorf(`%d: got %s, want code %v and errOut with "wants the path of an image archive"`, code,
			errOut.String(), 2)
	}
}
