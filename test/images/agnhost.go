package images

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Agnhost is the test server of test/images/agnhost on top of Busybox, with the modes of
// Kubernetes' image of that name which tests use.
func Agnhost() (v1.Image, error) {
	program, err := buildAgnhost()
	if err != nil {
		return nil, err
	}
	shell, err := busybox()
	if err != nil {
		return nil, err
	}
	return cached("agnhost", append(program, shell...), func() (v1.Image, error) {
		img, err := newBusybox(shell)
		if err != nil {
			return nil, err
		}
		if img, err = WithLayer(img, []File{{Path: "agnhost", Mode: 0o755, Body: program}}); err != nil {
			return nil, err
		}
		return WithConfig(img, v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, Env: []string{path}})
	})
}

// buildAgnhost links the test server, with the flags of the tests: what it needs is compiled for
// them already.
func buildAgnhost() ([]byte, error) {
	_, here, _, _ := runtime.Caller(0)
	tmp, err := os.MkdirTemp("", "agnhost")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "agnhost")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", out, "./agnhost")
	build.Dir = filepath.Dir(here)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build agnhost: %w", err), errors.New(strings.TrimSpace(string(said))))
	}
	return os.ReadFile(out)
}
