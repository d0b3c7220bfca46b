// Package nfs mounts directories of NFS servers.
//
// In: server, path, mount options. Out: the server's directory, mounted below the Pod's by
// mount(8); unmounted when the Pod is released.
package nfs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is nfs.
type Plugin struct{ Mounts volume.Mounter }

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "nfs" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return "kubernetes.io~nfs" }

// RequiresRemount is false.
func (Plugin) RequiresRemount(volume.Spec) bool { return false }

// SetUp mounts the volume.
func (t Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	n := a.Spec.Volume.NFS
	if pv := a.Spec.PersistentVolume; pv != nil {
		n = pv.Spec.NFS
	}
	readOnly := n.ReadOnly || a.Spec.ReadOnly
	m := volume.Mounted{Path: a.Dir, ReadOnly: readOnly, Size: volume.SizeOfMount}
	return m, mountExport(t.Mounts, a.Dir, export{server: n.Server, path: n.Path, readOnly: readOnly,
		options: a.MountOptions})
}

// TearDown unmounts the volume and removes the directory it was mounted on.
func (t Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	return volumedir.Remove(t.Mounts, a.Dir)
}

// export is a directory of a server.
type export struct {
	server, path string
	readOnly     bool
	options      []string // of mount(8)
}

// source is server:path; a bare IPv6 address stands in brackets.
func (e export) source() string {
	server := e.server
	if ip, err := netip.ParseAddr(server); err == nil && ip.Is6() {
		server = "[" + server + "]"
	}
	return server + ":" + e.path
}

// mountExport mounts the export on dir. It can be repeated. The server owns the files: no fsGroup
// is applied.
func mountExport(m volume.Mounter, dir string, e export) error {
	if mounted, err := m.IsMountPoint(dir); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	options := e.options
	if e.readOnly {
		options = append(options[:len(options):len(options)], "ro")
	}
	if err := m.Mount(e.source(), dir, "nfs", options); err != nil {
		return fmt.Errorf("%w", errors.Join(err, volumedir.Empty(m, dir)))
	}
	return nil
}
