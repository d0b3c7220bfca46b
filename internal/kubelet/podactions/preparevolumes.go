package podactions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/reason"
)

// prepareVolumes makes the Pod's cgroup, directories and volumes ready.
func (c *operation) prepareVolumes(ctx context.Context) error {
	if err := c.prepareDevices(ctx); err != nil {
		return err
	}
	o := c.podOptions()
	if err := c.executor.d.Cgroups.Ensure(o.PodPath(c.pod),
		resource.Larger(resource.ForPod(c.applied.ApplyTo(c.pod), o), resource.ForPod(c.pod, o))); err != nil {
		return newRefusal(reason.FailedCgroup, fmt.Errorf("cgroup of the Pod: %w", err))
	}
	for _, dir := range []string{filepath.Join(c.podDir(), "volumes"), filepath.Join(c.podDir(), "plugins"),
		filepath.Join(c.podDir(), "containers")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return newRefusal(reason.FailedMount, fmt.Errorf("directory of the Pod: %w", err))
		}
	}
	if c.cgroupReady != nil && c.executor.d.Volumes.ObjectsPresent(ctx, c.pod) {
		c.cgroupReady()
	}
	mounted, err := c.executor.d.Volumes.MountVolumes(ctx, c.pod)
	if err != nil {
		return err
	}
	c.state.mounted = mounted
	return nil
}

// releasePod takes volumes, cgroup and directories away.
func (c *operation) releasePod(ctx context.Context, a podplan.Release) error {
	c.state.mounted = nil
	if err := c.executor.d.Volumes.UnmountVolumes(ctx, c.pod.UID); err != nil {
		return newRefusal(reason.FailedRelease, fmt.Errorf("volumes of the Pod: %w", err))
	}
	if err := c.executor.d.Cgroups.Remove(c.executor.d.Node.Resources.PodPath(c.pod)); err != nil {
		return newRefusal(reason.FailedRelease, fmt.Errorf("cgroup of the Pod: %w", err))
	}
	if !a.Logs {
		return nil
	}
	for _, dir := range []string{LogDir(c.executor.d.Node.LogDir, c.pod), c.podDir()} {
		if err := os.RemoveAll(dir); err != nil {
			return newRefusal(reason.FailedRelease, fmt.Errorf("directory of the Pod: %w", err))
		}
	}
	return nil
}
