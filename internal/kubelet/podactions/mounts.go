package podactions

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volumemanager"
)

// mounts are what the container finds mounted: its volumes, the managed hosts file, the file of its
// termination message.
func (c *operation) mounts(ctx context.Context, m podplan.Member, env *environment) ([]*runtimeapi.Mount, error) {
	var out []*runtimeapi.Mount
	hosts := true
	for i := range m.VolumeMounts {
		vm := &m.VolumeMounts[i]
		if filepath.Clean(vm.MountPath) == etcHosts {
			hosts = false
		}
		mount, err := c.mount(ctx, m, i, env)
		if err != nil {
			return nil, err
		}
		out = append(out, mount)
	}
	if hosts {
		path, err := c.hostsFile()
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: etcHosts, HostPath: path})
	}
	if m.TerminationMessagePath != "" {
		path, err := c.terminationMessageFile(m)
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: m.TerminationMessagePath, HostPath: path})
	}
	users, err := c.userNamespace(ctx)
	if err != nil {
		return nil, err
	}
	idmapped(out, users)
	return out, nil
}

// mount is one volumeMount.
func (c *operation) mount(ctx context.Context, m podplan.Member, i int, env *environment) (*runtimeapi.Mount, error) {
	vm := &m.VolumeMounts[i]
	from, ok := c.state.mounted[vm.Name]
	if !ok || from.Device {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", vm.Name, m.Name)
	}
	sub := vm.SubPath
	if vm.SubPathExpr != "" {
		var err error
		if sub, err = expandStrict(vm.SubPathExpr, env.lookup()); err != nil {
			return nil, err
		}
	}
	deep, err := c.recursiveReadOnly(ctx, vm)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.Mount{
		ContainerPath: vm.MountPath, HostPath: from.Path, Readonly: vm.ReadOnly || from.ReadOnly,
		Propagation:       propagation(vm.MountPropagation),
		RecursiveReadOnly: deep,
	}
	if from.Image != "" {
		out.HostPath, out.Image, out.ImageSubPath = "", c.images[vm.Name], sub
		return out, nil
	}
	if sub == "" {
		return out, nil
	}
	path, err := c.executor.d.Volumes.PrepareSubPath(ctx, volumemanager.SubPath{Pod: c.pod, Container: m.Name, Index: i,
		Volume: from, Path: sub})
	if err != nil {
		return nil, err
	}
	out.HostPath = path
	return out, nil
}

// recursiveReadOnly tells whether everything mounted below the volume is read-only too, which only
// some runtimes can do.
// https://kubernetes.io/docs/concepts/storage/volumes/#recursive-read-only-mounts
func (c *operation) recursiveReadOnly(ctx context.Context, vm *v1.VolumeMount) (bool, error) {
	mode := deref(vm.RecursiveReadOnly)
	if mode == "" || mode == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if !vm.ReadOnly {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", vm.Name)
	}
	if p := deref(vm.MountPropagation); p != "" && p != v1.MountPropagationNone {
		return false,
			fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q",
				vm.Name, p)
	}
	handler, err := c.executor.d.Cluster.RuntimeHandler(ctx, deref(c.pod.Spec.RuntimeClassName))
	if err != nil {
		return false, err
	}
	can, err := c.features(ctx, handler)
	if err != nil {
		return false, err
	}
	if mode == v1.RecursiveReadOnlyEnabled && !can.GetRecursiveReadOnlyMounts() {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime",
			vm.Name)
	}
	return can.GetRecursiveReadOnlyMounts(), nil
}

// devices are the volumes that the container gets as block devices.
func (c *operation) devices(m podplan.Member) ([]*runtimeapi.Device, error) {
	var out []*runtimeapi.Device
	for _, vd := range m.VolumeDevices {
		from, ok := c.state.mounted[vd.Name]
		if !ok || !from.Device {
			return nil, fmt.Errorf("cannot find volume %q to pass into container %q", vd.Name, m.Name)
		}
		may := "mrw"
		if from.ReadOnly {
			may = "r"
		}
		out = append(out, &runtimeapi.Device{ContainerPath: vd.DevicePath, Permissions: may,
			HostPath: cmp.Or(from.MapPath, from.Path)})
	}
	return out, nil
}

func propagation(p *v1.MountPropagationMode) runtimeapi.MountPropagation {
	switch deref(p) {
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}

// terminationMessageFile makes the file a container may write its termination message to, one for
// each start. Any user of the container may write it.
func (c *operation) terminationMessageFile(m podplan.Member) (string, error) {
	dir := filepath.Join(c.podDir(), "containers", m.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("directory of container %s: %w", m.Name, err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%08x", rand.Uint32()))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("termination message file of container %s: %w", m.Name, err)
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return path, os.Chmod(path, 0o666)
}
