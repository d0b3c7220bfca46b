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

// shelf follows a directory of archives; an archive is whole when it begins and ends with W.
type shelf struct {
	t    *testing.T
	dir  string
	told chan ImportedArchive
}

func newShelf(t *testing.T, dir string) *shelf {
	t.Helper()
	s := &shelf{t: t, dir: dir, told: make(chan ImportedArchive, 100)}
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

func (s *shelf) archives() *archives {
	return &archives{
		dir: s.dir, record: filepath.Join(filepath.Dir(s.dir), "imported.json"), failed: map[string]string{}, tell: func(i ImportedArchive) { s.told <- i },
		load: func(_ context.Context, path string) ([]string, error) {
			raw, err := os.ReadFile(path)
			if err == nil && (len(raw) < 2 || raw[0] != 'W' || raw[len(raw)-1] != 'W') {
				err = errors.New("no whole archive: " + path)
			}
			return []string{filepath.Base(path)}, err
		},
	}
}

func (s *shelf) expect(file, problem string) {
	s.t.Helper()
	select {
	case i := <-s.told:
		if filepath.Base(i.File) != file || (i.Err == nil) != (problem == "") || i.Err != nil && !strings.Contains(i.Err.Error(), problem) {
			s.t.Errorf("%s: told %+v", file, i)
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%s is not told", file)
	}
}

func (s *shelf) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// The ways in which an archive comes: written in pieces, copied and renamed, linked, with a directory that is made, taken away and made again.
func TestArchivesAreImportedOnceTheyAreComplete(t *testing.T) {
	s := newShelf(t, filepath.Join(t.TempDir(), "images"))
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

// A broken archive is named once, until it is mended; what is there already is not imported again, not after a restart either, and a broken one is named by each start.
func TestABrokenArchiveIsNamedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newShelf(t, dir)
	s.write("broken.tar", "no archive")
	s.expect("broken.tar", "mend the archive or take it out of "+dir)
	s.write("good.tar", "W good W") // looks again, and says nothing of the broken one
	s.expect("good.tar", "")
	s.write("notes.txt", "W no archive's name W")
	s.write(".hidden.tar", "W a copy that is under way W")

	again := s.archives() // another start
	if err := again.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("broken.tar", "no whole archive")
	s.write("broken.tar", "W mended W")
	s.expect("broken.tar", "")
	select {
	case i := <-s.told:
		t.Errorf("told besides: %+v", i)
	default:
	}
}

// An archive over whose import containerd dies is not called broken: it is imported when containerd is back.
func TestAnArchiveIsImportedWhenContainerdIsBack(t *testing.T) {
	s := &shelf{t: t, dir: filepath.Join(t.TempDir(), "images"), told: make(chan ImportedArchive, 100)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("a.tar", "W W")
	a := s.archives()
	load, gone := a.load, true
	a.load = func(ctx context.Context, path string) ([]string, error) {
		if gone {
			return nil, fmt.Errorf("import: %w", status.Error(codes.Unavailable, "error reading from server: EOF"))
		}
		return load(ctx, path)
	}
	if err := a.scan(t.Context()); !away(err) {
		t.Errorf("a scan while containerd is away: got %v, want that it is away", err)
	}
	if got := len(s.told); got != 0 {
		t.Errorf("a scan while containerd is away: got %d archives told, want 0", got)
	}
	gone = false
	if err := a.scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("a.tar", "")
}
