package fsgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

func TestPolicy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	group, root, always := int64(2345), v1.FSGroupChangeOnRootMismatch, v1.FSGroupChangeAlways
	for _, c := range []struct {
		name    string
		policy  *v1.PodFSGroupChangePolicy
		fits    bool // the top is the group's already
		changed bool // what is in it
	}{
		{"no policy", nil, true, true},
		{"Always", &always, true, true},
		{"OnRootMismatch, it fits", &root, true, false},
		{"OnRootMismatch, it does not", &root, false, true},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
		if c.fits {
			changeFile(dir, int(group), false)
		}
		pod := &v1.Pod{
			Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: c.policy}}}
		if err := SetVolumeOwnership(volume.MounterArgs{Pod: pod, FSGroup: &group}, dir, false); err != nil {
			t.Fatal(err)
		}
		got := describe(t, file)
		want := "0 600"
		if c.changed {
			want = "2345 660"
		}
		if got != want {
			t.Errorf("%s: file is %s, want %s", c.name, got, want)
		}
		if got := describe(t, "/etc/passwd"); got != "0 644" {
			t.Fatalf("%s: the target of a link is %s, want \"0 644\"", c.name, got)
		}
		if !hasOwnership(dir, group, false) {
			t.Errorf("%s: the directory is not the group's", c.name)
		}
	}
}

func describe(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %o", info.Sys().(*syscall.Stat_t).Gid, info.Mode().Perm())
}
