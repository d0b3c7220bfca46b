package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gantry-project/gantry/test/images"
)

// programs makes the disk that the machine runs from: Gantry, what containers need, the guest and
// the images; with upstream's kubelet where it is asked for.
func programs(ctx context.Context, bin, out string, upstream bool) (disk string, err error) {
	tmp, err := os.MkdirTemp(out, "programs")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	for _, name := range []string{"gantry", "runc", "containerd-shim-runc-v2", "pause", "cni/gantry-cni"} {
		if err := copyProgram(filepath.Join(bin, name), filepath.Join(tmp, name)); err != nil {
			return "", fmt.Errorf("%w; run make build", err)
		}
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(tmp, "guest"),
		"./hack/vm/guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./hack/vm/guest: %w\n%s", err, said)
	}
	if upstream {
		if err := upstreamKubelet(ctx, out, filepath.Join(tmp, "kubelet")); err != nil {
			return "", err
		}
	}
	err = errors.Join(
		images.Archive(filepath.Join(tmp, "pods.tar"), map[string]images.Make{
			"registry.example/agnhost:1": images.Agnhost, "registry.example/busybox:1": images.Busybox}),
		images.Archive(filepath.Join(tmp, "unused.tar"), map[string]images.Make{"registry.example/unused:1": unused}))
	if err != nil {
		return "", err
	}
	disk = filepath.Join(out, "programs.ext4")
	if err := os.RemoveAll(disk); err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tmp, disk,
		"500M").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mke2fs: %w\n%s", err, said)
	}
	return disk, nil
}

// upstreamModule pins upstream's version.
const upstreamModule = "hack/conformance/upstream"

// upstreamKubelet builds upstream's kubelet once, below out, and copies it to a file.
func upstreamKubelet(ctx context.Context, out, to string) error {
	built, err := filepath.Abs(filepath.Join(out, "kubelet"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(built); err != nil {
		const v = "-X k8s.io/component-base/version."
		build := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w "+v+"gitVersion=v1.37.2 "+v+"gitMajor=1 "+v+
			"gitMinor=37 "+v+"gitTreeState=clean", "-o", built, "k8s.io/kubernetes/cmd/kubelet")
		build.Dir = upstreamModule
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("upstream's kubelet: %w\n%s", err, said)
		}
	}
	return copyProgram(built, to)
}

// unused is an image that no Pod runs, of 128 MiB on the node's disk and little in its archive.
func unused() (v1.Image, error) {
	return images.New([]images.File{{Path: "data", Mode: 0o644, Body: make([]byte, 128<<20)}}, v1.Config{})
}

func copyProgram(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
