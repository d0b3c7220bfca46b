package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/options"
)

// stopGrace is what containers get when all Pods are stopped with Gantry, in seconds.
const stopGrace = 10

// stopSandboxes stops every container with grace, then every sandbox, and returns how many Pods
// that were.
func stopSandboxes(ctx context.Context, runtime internalapi.RuntimeService) (int, error) {
	containers, err := runtime.ListContainers(ctx,
		&runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	note := func(err error) {
		if err != nil {
			failed.Store(&err)
		}
	}
	for _, c := range containers {
		wg.Go(func() { note(runtime.StopContainer(ctx, c.Id, stopGrace)) })
	}
	wg.Wait()
	boxes, err := runtime.ListPodSandbox(ctx,
		&runtimeapi.PodSandboxFilter{
			State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}})
	if err != nil {
		return 0, err
	}
	for _, b := range boxes {
		wg.Go(func() { note(runtime.StopPodSandbox(ctx, b.Id)) })
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return len(boxes), *e
	}
	return len(boxes), nil
}

// Clean takes everything away that is not data. Every step is tried; what failed is joined.
func Clean(ctx context.Context, p *options.Instance, out *cli.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var errs []error
	step := func(what string, f func() error) {
		if err := f(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			return
		}
		out.Step("%s removed", what)
	}
	step("containers and containerd", func() error { return containerd.Clean(ctx, p.ContainerdConfig()) })
	step("volumes' mounts", func() error { return unmountBelow(filepath.Join(p.DataDir, "kubelet")) })
	step("Service rules", func() error { return cleanProxy(ctx, instance.ID(p.DataDir)) })
	step("routes and network policies", func() error { return cleanNetwork(ctx, p) })
	step("network", func() error { return network.Clean(ctx, p.NetworkConfig()) })
	step("cgroups", func() error { return cleanCgroups(p) })
	return errors.Join(errs...)
}

// unmountBelow unmounts everything below dir, deepest first.
func unmountBelow(dir string) error {
	m := mount.Mounter{}
	points, err := m.MountPoints(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, at := range points {
		errs = append(errs, m.Unmount(at))
	}
	return errors.Join(errs...)
}
