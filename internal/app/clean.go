package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/internal/network"
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

func newClean(io IO) *cobra.Command {
	p := &instanceOptions{}
	data := false
	c := &cobra.Command{
		Use: "clean",
		Short: "Remove what an instance left on this machine: containers, containerd, mounts, network, cgroups; with " +
			"--data its data too",
		Long: "clean ends the Pods and the container runtime of the instance in DATA-DIR and takes away its mounts, " +
			"network links, rules and cgroups, and nothing of anybody else's.\n" +
			"The API's data stays unless --data is given.",
		Example: "  sudo gantry clean\n  sudo gantry clean --data-dir /tmp/two --data",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.complete(); err != nil {
				return err
			}
			if err := requireRoot("gantry clean"); err != nil {
				return err
			}
			if _, err := os.Stat(p.dataDir); errors.Is(err, os.ErrNotExist) {
				return withFix(fmt.Errorf("there is no instance in %s", p.dataDir),
					"name its directory with --data-dir")
			}
			lock, err := lockDataDir(p.dataDir)
			if err != nil {
				return err
			}
			defer lock.release()
			out := newProgress(io.Out)
			if err := clean(c.Context(), p, out); err != nil {
				return err
			}
			if data {
				if err := os.RemoveAll(p.dataDir); err != nil {
					return err
				}
				out.step("data directory %s removed", p.dataDir)
			}
			return nil
		},
	}
	p.dataFlag(c.Flags())
	p.nodeFlags(c.Flags())
	c.Flags().BoolVar(&data, "data", false, "remove the data directory as well: every object, certificate and image")
	return c
}

// clean takes everything away that is not data. Every step is tried; what failed is joined.
func clean(ctx context.Context, p *instanceOptions, out *progress) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var errs []error
	step := func(what string, f func() error) {
		if err := f(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			return
		}
		out.step("%s removed", what)
	}
	step("containers and containerd", func() error { return containerd.Clean(ctx, p.containerdConfig()) })
	step("volumes' mounts", func() error { return unmountBelow(filepath.Join(p.dataDir, "kubelet")) })
	step("Service rules", func() error { return cleanProxy(ctx, instance.ID(p.dataDir)) })
	step("routes and network policies", func() error { return cleanNetwork(ctx, p) })
	step("network", func() error { return network.Clean(ctx, p.networkConfig()) })
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
