package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module pins upstream's suite and the programs of its images. It is not part of Gantry's own
// module.
const module = "hack/conformance/upstream"

// packages are the Debian packages needed besides those of `make deps`.
var packages = map[string]string{"ip": "iproute2", "nsenter": "util-linux", "bash-static": "bash-static",
	"dpkg-deb": "dpkg", "mkfs.xfs": "xfsprogs"}

// programs are built from the module, each into a file named after the path's last element.
var programs = []string{
	"k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes/test/images/agnhost",
	"k8s.io/kubernetes/test/images/nonewprivs", "k8s.io/sample-apiserver", "./etcd",
	"k8s.io/kubernetes/test/images/regression-issue-74839", "github.com/onsi/ginkgo/v2/ginkgo",
}

// storagePrograms are those that the tests of storage need.
var storagePrograms = []string{"k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes/test/images/agnhost",
	"github.com/onsi/ginkgo/v2/ginkgo"}

// tools is where upstream's programs were built.
type tools struct {
	dir, version string // version is that of the suite
	source       string // of k8s.io/kubernetes
}

func (t *tools) path(name string) string { return filepath.Join(t.dir, name) }

// install installs missing programs with apt-get.
func install(ctx context.Context) error {
	var missing []string
	for program, name := range packages {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	step("installing %s", strings.Join(missing, " "))
	args := append([]string{"install", "-qq", "-y", "--no-install-recommends"}, missing...)
	if _, err := output(ctx, "", "apt-get", args...); err == nil {
		return nil
	}
	if _, err := output(ctx, "", "apt-get", "update", "-qq"); err != nil {
		return err
	}
	_, err := output(ctx, "", "apt-get", args...)
	return err
}

// build builds the suite and the programs of its images in dir, unless they are up to date.
func build(ctx context.Context, dir string, programs []string) (*tools, error) {
	var about []string
	for _, format := range []string{"{{.Version}}", "{{.Dir}}"} {
		out, err := output(ctx, module, "go", "list", "-m", "-f", format, "k8s.io/kubernetes")
		if err != nil {
			return nil, err
		}
		about = append(about, strings.TrimSpace(out))
	}
	if about[1] == "" {
		if _, err := output(ctx, module, "go", "mod", "download", "k8s.io/kubernetes"); err != nil {
			return nil, err
		}
		out, err := output(ctx, module, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
		if err != nil {
			return nil, err
		}
		about[1] = strings.TrimSpace(out)
	}
	t := &tools{dir: dir, version: about[0], source: about[1]}
	step("building the suite of Kubernetes %s and the programs of its images in %s (some ten minutes the first time)",
		t.version, dir)
	number := strings.Split(strings.TrimPrefix(t.version, "v"), ".")
	v := "-X k8s.io/component-base/version."
	flags := fmt.Sprintf("-s -w %[1]sgitVersion=%[2]s %[1]sgitMajor=%[3]s %[1]sgitMinor=%[4]s %[1]sgitTreeState=clean",
		v, t.version, number[0], number[1])
	for _, p := range programs {
		if _, err := output(ctx, module, "go", "build", "-ldflags", flags, "-o", t.path(filepath.Base(p)), p); err !=
			nil {
			return nil, err
		}
	}
	for _, own := range []string{"sh", "populator"} {
		if _, err := output(ctx, "", "go", "build", "-ldflags", "-s -w", "-o", t.path(own),
			"./hack/conformance/"+own); err != nil {
			return nil, err
		}
	}
	_, err := output(ctx, module, "go", "test", "-c", "-ldflags", flags, "-o", t.path("e2e.test"),
		"k8s.io/kubernetes/test/e2e")
	return t, err
}

// output runs a program and returns its output, which an error contains too. cgo is off.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "DEBIAN_FRONTEND=noninteractive")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out, said.String())
	}
	return string(out), nil
}
