package hostpath_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/hostpath"
	"github.com/gantry-project/gantry/test/expect"
)

// row: CSI-17
func TestCheck(t *testing.T) {
	dir, err := os.MkdirTemp("", "hp") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.NoError(t, os.Mkdir(at("dir"), 0o700))
	expect.NoError(t, os.WriteFile(at("file"), []byte("x"), 0o600))
	expect.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	l, err := net.Listen("unix", at("sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	const failed = "hostPath type check failed: "
	for _, tc := range []struct {
		path string
		kind v1.HostPathType
		err  string
	}{
		{at("none"), v1.HostPathUnset, ""},
		{at("dir"), v1.HostPathDirectory, ""},
		{at("none"), v1.HostPathDirectory, "hostPath type check failed, " + at("none") +
			" is not a directory, unable to determine its type: path \"" + at("none") + "\" does not exist"},
		{at("file"), v1.HostPathDirectory, failed + at("file") + " is not a directory, it's a File"},
		{at("file"), v1.HostPathFile, ""},
		{at("dir"), v1.HostPathFile, failed + at("dir") + " is not a file, it's a Directory"},
		{at("sock"), v1.HostPathSocket, ""},
		{at("file"), v1.HostPathSocket, failed + at("file") + " is not a socket file, it's a File"},
		{"/dev/null", v1.HostPathCharDev, ""},
		{at("sock"), v1.HostPathFile, failed + at("sock") + " is not a file, it's a Socket"},
		{at("pipe"), v1.HostPathFile, "hostPath type check failed, " + at("pipe") + " is not a file, unable to " +
			"determine its type: only recognise file, directory, socket, block device and character device"},
		{at("file"), v1.HostPathCharDev, failed + at("file") + " is not a character device, it's a File"},
		{"/dev/null", v1.HostPathBlockDev, failed + "/dev/null is not a block device, it's a CharDevice"},
		{at("made/deep"), v1.HostPathDirectoryOrCreate, ""},
		{at("made/deep"), v1.HostPathDirectoryOrCreate, ""},
		{at("file"), v1.HostPathDirectoryOrCreate, failed + at("file") + " is not a directory, it's a File"},
		{at("new"), v1.HostPathFileOrCreate, ""},
		{at("dir"), v1.HostPathFileOrCreate, failed + at("dir") + " is not a file, it's a Directory"},
		{at("no/parent"), v1.HostPathFileOrCreate, "open " + at("no/parent") + ": no such file or directory"},
		{at("dir") + "/../x", v1.HostPathUnset, "invalid HostPath `" + at("dir") + "/../x`: must not contain '..'"},
		{at("dir"), "Odd", "Odd is an invalid volume type"},
	} {
		err := hostpath.Check(tc.path, &tc.kind)
		if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%s as %s: %v, want %s", strings.TrimPrefix(tc.path, dir), tc.kind, err, tc.err)
		}
	}
	if st, err := os.Stat(at("made/deep")); err != nil || !st.IsDir() || st.Mode().Perm() != 0o755 {
		t.Errorf("made %v %v, want a directory 0755", st, err)
	}
	if st, err := os.Stat(at("new")); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("made %v %v, want a file 0644", st, err)
	}
}

// A node of an emulated v1.36 refuses in its words; other errors stay as they are.
func TestTypesAreRefusedInTheWordsOfV136(t *testing.T) {
	at := t.TempDir()
	for _, c := range []struct {
		path string
		kind v1.HostPathType
		want string
	}{
		{at + "/none", v1.HostPathDirectory, "hostPath type check failed: " + at + "/none is not a directory"},
		{at, v1.HostPathFile, "hostPath type check failed: " + at + " is not a file"},
		{at, v1.HostPathSocket, "hostPath type check failed: " + at + " is not a socket file"},
		{at, "Other", "Other is an invalid volume type"},
	} {
		spec := volume.Spec{Volume: &v1.Volume{VolumeSource: v1.VolumeSource{
			HostPath: &v1.HostPathVolumeSource{Path: c.path, Type: &c.kind}}}}
		_, err := hostpath.Plugin{V136: true}.SetUp(t.Context(), volume.MounterArgs{Spec: spec})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s as %s: got %v, want %q", c.path, c.kind, err, c.want)
		}
	}
}

// A hostPath PersistentVolume with mount options, of its field or of the older annotation, is
// refused: nothing is mounted that could take them.
func TestMountOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		options    []string
		annotation string
		want       string
	}{
		{nil, "", ""},
		{[]string{"ro", "noatime"}, "", "mount options are not supported for this volume type"},
		{nil, "hard,nfsvers=4.1", "mount options are not supported for this volume type"},
	} {
		pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{MountOptions: c.options,
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}}}}
		if c.annotation != "" {
			pv.Annotations = map[string]string{v1.MountOptionAnnotation: c.annotation}
		}
		_, err := hostpath.Plugin{}.SetUp(t.Context(), volume.MounterArgs{Spec: volume.Spec{Volume: &v1.Volume{},
			PersistentVolume: pv}})
		var part volume.PartError
		switch {
		case c.want == "":
			expect.NoError(t, err)
		case !errors.As(err, &part) || part.Part != volume.MountOptionSupport || err.Error() != c.want:
			t.Errorf("%+v: got %v, want %s of part %s", c, err, c.want, volume.MountOptionSupport)
		}
	}
}
