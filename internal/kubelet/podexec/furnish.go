package podexec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/reason"
)

// furnish makes the Pod's cgroup, directories and volumes ready.
func (c *call) furnish(ctx context.Context) error {
	if err := c.prepareDevices(); err != nil {
		return err
	}
	o := c.h.d.Node.Resources
	if err := c.h.d.Cgroups.Ensure(o.PodPath(c.pod), resource.Larger(resource.ForPod(c.applied.On(c.pod), o), resource.ForPod(c.pod, o))); err != nil {
		return refuse(reason.FailedCgroup, fmt.Errorf("cgroup of the Pod: %w", err))
	}
	for _, dir := range []string{filepath.Join(c.podDir(), "volumes"), filepath.Join(c.podDir(), "plugins"), filepath.Join(c.podDir(), "containers")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return refuse(reason.FailedMount, fmt.Errorf("directory of the Pod: %w", err))
		}
	}
	if c.ground != nil && c.h.d.Volumes.Named(ctx, c.pod) {
		c.ground()
	}
	mounted, err := c.h.d.Volumes.Ensure(ctx, c.pod)
	if err != nil {
		return err
	}
	c.bench.mounted = mounted
	return nil
}

// release takes volumes, cgroup and directories away.
func (c *call) release(ctx context.Context, a podplan.Release) error {
	c.bench.mounted = nil
	if err := c.h.d.Volumes.Release(ctx, c.pod.UID); err != nil {
		return refuse(reason.FailedRelease, fmt.Errorf("volumes of the Pod: %w", err))
	}
	if err := c.h.d.Cgroups.Remove(c.h.d.Node.Resources.PodPath(c.pod)); err != nil {
		return refuse(reason.FailedRelease, fmt.Errorf("cgroup of the Pod: %w", err))
	}
	if !a.Logs {
		return nil
	}
	for _, dir := range []string{LogDir(c.h.d.Node.LogDir, c.pod), c.podDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return refuse(reason.FailedRelease, fmt.Errorf("directory of the Pod: %w", err))
		}
	}
	return nil
}
