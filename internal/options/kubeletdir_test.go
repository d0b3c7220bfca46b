package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

// The directory of --root-dir is that of later starts and of other commands, without the flag; a
// node with Pods elsewhere refuses another one.
func TestKubeletDir(t *testing.T) {
	dir := t.TempDir()
	data, root, next := filepath.Join(dir, "data"), filepath.Join(dir, "root"), filepath.Join(dir, "next")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	of := func(root string) *Instance {
		p := &Instance{DataDir: data, dirs: directories{root: root}}
		if err := p.completeRootDir(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if got := of("").KubeletDir(); got != filepath.Join(data, "kubelet") {
		t.Errorf("got %s without flag, want kubelet in the data directory", got)
	}
	for i, give := range []string{root, "", next, root, root} {
		p := of(give)
		if err := p.MakeKubeletDir(); err != nil {
			t.Fatal(err)
		}
		want := root
		if i == 2 {
			want = next
		}
		if got := p.KubeletDir(); got != want {
			t.Errorf("start %d with --root-dir %q: got %s, want %s", i, give, got, want)
		}
		if got := of("").KubeletDir(); got != want {
			t.Errorf("after start %d: got %s for other commands, want %s", i, got, want)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "pods", "uid"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := of(next).MakeKubeletDir()
	if err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("got %v, want that the node with Pods in %s does not change to another directory", err, root)
	}
	if err := of(root).MakeKubeletDir(); err != nil {
		t.Errorf("the same directory with Pods in it: got %v, want none", err)
	}
}

// A data directory of an earlier version keeps its kubelet's directory, unless there is nothing in
// it.
func TestRootDirBesideAnOlderDirectory(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "kubelet")
	if err := (&Instance{DataDir: dir}).MakeKubeletDir(); err != nil {
		t.Fatal(err)
	}
	p := &Instance{DataDir: dir, dirs: directories{root: filepath.Join(dir, "root")}}
	if err := os.WriteFile(filepath.Join(own, "cpu_manager_state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.MakeKubeletDir(); err == nil || !strings.Contains(err.Error(), own) {
		t.Errorf("got %v, want that %s is in use", err, own)
	}
	if err := os.Remove(filepath.Join(own, "cpu_manager_state")); err != nil {
		t.Fatal(err)
	}
	if err := p.MakeKubeletDir(); err != nil {
		t.Errorf("got %v for an empty directory, want none", err)
	}
	for _, bad := range []string{"relative/dir", "/"} {
		p := &Instance{DataDir: dir, dirs: directories{root: bad}}
		if err := p.completeRootDir(); !cli.IsUsageError(err) {
			t.Errorf("--root-dir %s: got %v, want a wrong use", bad, err)
		}
	}
}
