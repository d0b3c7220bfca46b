package cli

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// printed is what a person sees of an error.
func printed(err error) string {
	var b bytes.Buffer
	Report(&b, err)
	return b.String()
}

func TestMissingKernelFeaturesAreNamedWithTheirRemedy(t *testing.T) {
	root := t.TempDir()
	want := func(texts ...string) {
		t.Helper()
		got := printed(RequireKernel(root))
		for _, x := range texts {
			if !strings.Contains(got, x) {
				t.Errorf("lacks %q: %s", x, got)
			}
		}
	}
	put := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want("/proc/filesystems", "mount proc")
	put("proc/filesystems", "nodev\ttmpfs\n")
	want("overlayfs", "modprobe overlay")
	put("proc/filesystems", "nodev\toverlay\n")
	want("network namespaces", "CONFIG_NET_NS")
	put("proc/self/ns/net", "")
	want("cgroup", "mount -t cgroup2")
	put("sys/fs/cgroup/x", "")
	if err := RequireKernel(root); err != nil {
		t.Error(err)
	}
}

func TestTakenPortNamesItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if got := printed(RequirePort("127.0.0.1", port, "--secure-port")); !strings.Contains(got, "is taken") ||
		!strings.Contains(got, "--secure-port") {
		t.Error(got)
	}
}
