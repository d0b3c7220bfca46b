package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// testImporter follows a directory of archives; an archive is whole when it begins and ends with W.
type testImporter struct {
	t        *testing.T
	dir      string
	imported chan ImportedArchive
}

func newTestImporter(t *testing.T, dir string) *testImporter {
	t.Helper()
	s := &testImporter{t: t, dir: dir, imported: make(chan ImportedArchive, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	a := s.archives()
	go func() { ended <- a.follow(ctx, func(err error) { t.Error(err) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *testImporter) archives() *archiveImporter {
	return &archiveImporter{
		dir: s.dir, recordFile: filepath.Join(filepath.Dir(s.dir), "imported.json"), failed: map[string]string{},
		onImport: func(i ImportedArchive) { s.imported <- i },
		load: func(_ context.Context, path string) ([]string, error) {
			raw, err := os.ReadFile(path)
			if err == nil && (len(raw) < 2 || raw[0] != 'W' || raw[len(raw)-1] != 'W') {
				err = errors.New("no whole archive: " + path)
			}
			return []string{filepath.Base(path)}, err
		},
	}
}

func (s *testImporter) expect(file, problem string) {
	s.t.Helper()
	select {
	case i := <-s.imported:
		if filepath.Base(i.File) != file || (i.Err == nil) != (problem == "") ||
			i.Err != nil && !strings.Contains(i.Err.Error(), problem) {
			s.t.Errorf("%s: got %+v", file, i)
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%s is not reported", file)
	}
}

func (s *testImporter) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// The ways in which an archive comes: written in pieces, copied and renamed, linked, with a
// directory that is made, taken away and made again.
func TestArchivesAreImportedOnceTheyAreComplete(t *testing.T) {
	s := newTestImporter(t, filepath.Join(t.TempDir(), "images"))
	mkdir := func() {
		t.Helper()
		if err := os.Mkdir(s.dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mkdir()
	s.write("first.tar", "W first W")
	s.expect("first.tar", "")

	slow, err := os.Create(filepath.Join(s.dir, "slow.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.WriteString("W half"); err != nil {
		t.Fatal(err)
	}
	s.write("other.tar.gz", "W other W") // makes it look while the slow one is half there
	s.expect("other.tar.gz", "")
	if _, err := slow.WriteString(" whole W"); err != nil {
		t.Fatal(err)
	}
	if err := slow.Close(); err != nil {
		t.Fatal(err)
	}
	s.expect("slow.tgz", "")

	s.write("moved.tar.part", "W moved W")
	if err := os.Rename(filepath.Join(s.dir, "moved.tar.part"), filepath.Join(s.dir, "moved.tar")); err != nil {
		t.Fatal(err)
	}
	s.expect("moved.tar", "")
	apart := filepath.Join(filepath.Dir(s.dir), "apart")
	if err := os.WriteFile(apart, []byte("W apart W"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(apart, filepath.Join(s.dir, "hard.tar")); err != nil {
		t.Fatal(err)
	}
	s.expect("hard.tar", "")
	if err := os.Symlink(apart, filepath.Join(s.dir, "soft.tar")); err != nil {
		t.Fatal(err)
	}
	s.expect("soft.tar", "")

	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	mkdir()
	s.write("again.tar", "W again W")
	s.expect("again.tar", "")
}

// A broken archive is reported once, until it changes; images present are not imported again, not
// after a restart either, and a broken archive is reported by each start.
func TestABrokenArchiveIsNamedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newTestImporter(t, dir)
	s.write("broken.tar", "no archive")
	s.expect("broken.tar", "mend the archive or take it out of "+dir)
	s.write("good.tar", "W good W") // looks again, and says nothing of the broken one
	s.expect("good.tar", "")
	s.write("notes.txt", "W no archive's name W")
	s.write(".hidden.tar", "W a copy that is under way W")

	rescan := s.archives() // another start
	if err := rescan.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("broken.tar", "no whole archive")
	s.write("broken.tar", "W mended W")
	s.expect("broken.tar", "")
	select {
	case i := <-s.imported:
		t.Errorf("also reported: %+v", i)
	default:
	}
}

// An archive over whose import containerd dies is not called broken: it is imported when containerd
// is back.
func TestAnArchiveIsImportedWhenContainerdIsBack(t *testing.T) {
	s := &testImporter{t: t, dir: filepath.Join(t.TempDir(), "images"), imported: make(chan ImportedArchive, 100)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("a.tar", "W W")
	a := s.archives()
	load, statErr := a.load, true
	a.load = func(ctx context.Context, path string) ([]string, error) {
		if statErr {
			return nil, fmt.Errorf("import: %w", status.Error(codes.Unavailable, "error reading from server: EOF"))
		}
		return load(ctx, path)
	}
	if err := a.scan(t.Context()); !isUnavailable(err) {
		t.Errorf("a scan while containerd is away: got %v, want that it is away", err)
	}
	if got := len(s.imported); got != 0 {
		t.Errorf("a scan while containerd is away: got %d archives reported, want 0", got)
	}
	statErr = false
	if err := a.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("a.tar", "")
}
