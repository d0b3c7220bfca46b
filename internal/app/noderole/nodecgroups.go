package noderole

import (
	"time"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/systemdcgroup"
	"github.com/gantry-project/gantry/internal/options"
)

// unifiedCgroups tells cgroup v2.
func unifiedCgroups() bool {
	return cli.Readable(cgroup.Mount + "/cgroup.controllers")
}

// tree is the instance's part of the hierarchy.
func (n *Role) tree() (*cgroup.Tree, error) {
	return cgroup.Open(
		cgroup.Options{Root: kubeletresource.Options{Driver: kubeletresource.Driver(n.config.CgroupDriver),
			Root: n.instance.CgroupRoot()}.RootCgroup()})
}

// cgroupManager lets the kubelet write to the instance's tree; systemd is asked first where it owns
// that.
type cgroupManager struct {
	tree    *cgroup.Tree
	slices  *systemdcgroup.Manager
	metrics *metrics.Metrics // may be nil
}

// Ensure makes the cgroup of path, below the tree's root, or changes it, so that it has the values;
// by systemd where that owns the tree. It counts the call and its seconds. An error of the kernel
// or of systemd comes back, and a part of the values may be written then.
func (c cgroupManager) Ensure(path string, v kubeletresource.Values) error {
	operation, begun := "create", time.Now()
	if c.tree.Exists(path) {
		operation = "update"
	}
	defer func() { c.metrics.Cgroup(operation, time.Since(begun)) }()
	if c.slices != nil {
		if err := c.slices.Ensure(path, cgroup.Values(v)); err != nil {
			return err
		}
	}
	return c.tree.Ensure(path, cgroup.Values(v))
}

// Remove ends what is in a cgroup and removes it.
func (c cgroupManager) Remove(path string) error {
	begun := time.Now()
	defer func() { c.metrics.Cgroup("destroy", time.Since(begun)) }()
	if c.slices != nil {
		if err := c.slices.Remove(path); err != nil {
			return err
		}
	}
	return c.tree.Remove(path)
}

// List names the cgroups directly below one.
func (c cgroupManager) List(parent string) ([]string, error) { return c.tree.List(parent) }

// CleanCgroups removes the instance's cgroups, whichever driver made them.
func CleanCgroups(p *options.Instance) error {
	for _, driver := range []kubeletresource.Driver{kubeletresource.Cgroupfs, kubeletresource.Systemd} {
		top := kubeletresource.Options{Driver: driver, Root: p.CgroupRoot()}.RootCgroup()
		tree, err := cgroup.Open(cgroup.Options{Root: top})
		if err != nil {
			return err
		}
		if !tree.Exists(top) {
			continue
		}
		c := cgroupManager{tree: tree}
		if driver == kubeletresource.Systemd {
			if c.slices, err = systemdcgroup.Dial(systemdcgroup.Options{Unified: tree.Version() == 2}); err != nil {
				return err
			}
			defer c.slices.Close()
		}
		if err := c.Remove(top); err != nil {
			return err
		}
	}
	return nil
}
