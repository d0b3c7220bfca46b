package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/linux/loop"
	"github.com/gantry-project/gantry/internal/linux/mount"
	"github.com/gantry-project/gantry/internal/network"
	"github.com/gantry-project/gantry/internal/options"
)

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
	step("loop devices of raw volumes", func() error { return loop.DetachAll(p.KubeletDir()) }) // known by their mounts
	step("volumes' mounts", func() error { return unmountBelow(p.KubeletDir()) })
	step("loop devices of local volumes", func() error { return loop.DetachAll(localVolumesDir(p)) })
	step("Service rules", func() error { return cleanProxy(ctx, instance.ID(p.DataDir)) })
	step("routes and network policies", func() error { return noderole.CleanNetwork(ctx, p) })
	step("network", func() error { return network.Clean(ctx, p.NetworkConfig()) })
	step("cgroups", func() error { return noderole.CleanCgroups(p) })
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
