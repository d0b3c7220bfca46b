package atomicwriter_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/atomicwriter"
	"github.com/gantry-project/gantry/test/expect"
)

func files(pairs ...string) volume.Payload {
	p := volume.Payload{}
	for i := 0; i+1 < len(pairs); i += 2 {
		p[pairs[i]] = volume.File{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return p
}

// readTree is what a reader finds, links followed, the writer's own names left out.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		root, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatalf("a link to nowhere: %v, want no error", err)
		}
		expect.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, _ := os.ReadFile(path)
				rel, _ := filepath.Rel(root, path)
				out[filepath.Join(e.Name(), rel)] = string(b)
			}
			return err
		}))
	}
	return out
}

func ownFiles(t *testing.T, dir string) []string {
	var out []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			out = append(out, e.Name())
		}
	}
	return out
}

func write(t *testing.T, dir string, p volume.Payload) bool {
	t.Helper()
	changed, err := atomicwriter.Write(dir, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := ownFiles(t, dir); len(n) != 2 {
		t.Errorf("left behind: %v, want 2 of them", n)
	}
	return changed
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if !write(t, dir, files("a", "1", "sub/b", "2", "sub/deep/c", "3")) {
		t.Error("the first write changes nothing")
	}
	if d := cmp.Diff(map[string]string{"a": "1", "sub/b": "2", "sub/deep/c": "3"}, readTree(t, dir)); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	if write(t, dir, files("a", "1", "sub/b", "2", "sub/deep/c", "3")) {
		t.Error("the same again is a change")
	}
	if after, _ := os.Readlink(filepath.Join(dir, "..data")); after != before {
		t.Errorf("the same again moved the files: got %v, want %v", after, before)
	}
	if !write(t, dir, files("a", "1", "d", "4")) {
		t.Error("other files are no change")
	}
	if d := cmp.Diff(map[string]string{"a": "1", "d": "4"}, readTree(t, dir)); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
	modes := files("a", "1", "d", "4")
	modes["d"] = volume.File{Data: []byte("4"), Mode: 0o400}
	if !write(t, dir, modes) {
		t.Error("another mode is no change")
	}
	if st, _ := os.Stat(filepath.Join(dir, "d")); st.Mode() != 0o400 {
		t.Errorf("mode %v, want 0o400", st.Mode())
	}
	if changed, left := write(t, dir, files()), readTree(t, dir); !changed || len(left) != 0 {
		t.Errorf("nothing wanted: got changed %t and %v, want true and none", changed, left)
	}
}

// A reader that holds ..data open while a write goes on sees the old files to the end.
func TestReadersSeeAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files("a", "old", "b", "old"))
	_, err := atomicwriter.Write(dir, files("a", "new", "b", "new"), func(string) error {
		if d := cmp.Diff(map[string]string{"a": "old", "b": "old"}, readTree(t, dir)); d != "" {
			t.Errorf("before the switch: %s, want none", d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"a": "new", "b": "new"}, readTree(t, dir)); d != "" {
		t.Errorf("the two differ (-want +got):\n%s", d)
	}
}

func TestFailedFinishChangesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files("a", "old"))
	no := errors.New("no")
	if _, err := atomicwriter.Write(dir, files("a", "new"), func(string) error { return no }); !errors.Is(err, no) {
		t.Fatalf("got %v, want an error %v", err, no)
	}
	if d := cmp.Diff(map[string]string{"a": "old"}, readTree(t, dir)); d != "" || len(ownFiles(t, dir)) != 2 {
		t.Errorf("got %v, %v, want d empty and 2 in ownFiles(t, dir)", d, ownFiles(t, dir))
	}
}

// What a crash can leave at each point of a write; the next write, of the old files or of new ones,
// must repair it.
func TestWriteRepairsWhatACrashLeft(t *testing.T) {
	leave := map[string]func(dir string){
		"files half written": func(dir string) {
			expect.NoError(t, os.MkdirAll(filepath.Join(dir, "..2026_01_01_00_00_00.1/sub"), 0o755))
			expect.NoError(t, os.WriteFile(filepath.Join(dir, "..2026_01_01_00_00_00.1/a"), []byte("ne"), 0o600))
		},
		"link made, not renamed": func(dir string) {
			expect.NoError(t, os.Mkdir(filepath.Join(dir, "..2026_01_01_00_00_00.1"), 0o755))
			expect.NoError(t, os.Symlink("..2026_01_01_00_00_00.1", filepath.Join(dir, "..data_tmp")))
		},
		"renamed, readers' links not made": func(dir string) {
			d := filepath.Join(dir, "..2026_01_01_00_00_00.1")
			expect.NoError(t, os.Mkdir(d, 0o755))
			for name, text := range map[string]string{"a": "old", "z": "new"} {
				expect.NoError(t, os.WriteFile(filepath.Join(d, name), []byte(text), 0o644))
			}
			expect.NoError(t, os.Symlink(filepath.Base(d), filepath.Join(dir, "..data_tmp")))
			expect.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		},
		"data points to nothing": func(dir string) {
			os.Remove(filepath.Join(dir, "..data"))
			expect.NoError(t, os.Symlink("..gone", filepath.Join(dir, "..data")))
		},
		"file cut short": func(dir string) {
			d, _ := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
			expect.NoError(t, os.WriteFile(filepath.Join(d, "a"), nil, 0o644))
		},
	}
	for name, damage := range leave {
		for _, next := range []volume.Payload{files("a", "old"), files("a", "old", "z", "new"), files("z", "new")} {
			dir := t.TempDir()
			write(t, dir, files("a", "old"))
			damage(dir)
			write(t, dir, next)
			want := map[string]string{}
			for n, f := range next {
				want[n] = string(f.Data)
			}
			if d := cmp.Diff(want, readTree(t, dir)); d != "" {
				t.Errorf("%s: the two differ (-want +got):\n%s", name, d)
			}
		}
	}
}

// A container that may write into its volume cannot make the kubelet write or delete elsewhere.
func TestSymlinksCannotLeaveTheVolume(t *testing.T) {
	outside := t.TempDir()
	precious := filepath.Join(outside, "precious")
	expect.NoError(t, os.WriteFile(precious, []byte("mine"), 0o600))
	for name, attack := range map[string]func(dir string){
		"..data leads out": func(dir string) {
			os.Remove(filepath.Join(dir, "..data"))
			expect.NoError(t, os.Symlink(outside, filepath.Join(dir, "..data")))
		},
		"..data leads up": func(dir string) {
			os.Remove(filepath.Join(dir, "..data"))
			expect.NoError(t, os.Symlink("..", filepath.Join(dir, "..data")))
		},
		"a name leads out": func(dir string) {
			os.Remove(filepath.Join(dir, "a"))
			expect.NoError(t, os.Symlink(precious, filepath.Join(dir, "a")))
		},
		"a stale directory leads out": func(dir string) {
			expect.NoError(t, os.Symlink(outside, filepath.Join(dir, "..2020_01_01_00_00_00.9")))
		},
		"..data_tmp is a directory": func(dir string) {
			expect.NoError(t, os.MkdirAll(filepath.Join(dir, "..data_tmp", "x"), 0o755))
		},
	} {
		dir := t.TempDir()
		write(t, dir, files("a", "old"))
		attack(dir)
		write(t, dir, files("a", "new"))
		if b, err := os.ReadFile(precious); err != nil || string(b) != "mine" {
			t.Fatalf("%s: got %q %v, want no error and b mine", name, b, err)
		}
		if e, _ := os.ReadDir(outside); len(e) != 1 {
			t.Errorf("%s: written outside: %v, want 1 of them", name, e)
		}
		if d := cmp.Diff(map[string]string{"a": "new"}, readTree(t, dir)); d != "" {
			t.Errorf("%s: the two differ (-want +got):\n%s", name, d)
		}
	}
	if _, err := atomicwriter.Write(t.TempDir(), files("../x", "1"), nil); err == nil {
		t.Error("a path that leads out is written")
	}
}
