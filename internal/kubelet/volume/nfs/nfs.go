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

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Dir is the plugin's directory.
const Dir = "kubernetes.io~nfs"

// Plugin is nfs.
type Plugin struct{ Mounts volume.Mounter }

// Name is the field of v1.VolumeSource.
func (Plugin) Name() string { return "nfs" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return Dir }

// CanSupport tells whether the volume is of a server.
func (Plugin) CanSupport(v *v1.Volume) bool { return v.NFS != nil }

// RequiresRemount is false.
func (Plugin) RequiresRemount() bool { return false }

// SetUp mounts the volume.
func (t Plugin) SetUp(_ context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	n := a.Volume.NFS
	m := volume.Mounted{Name: a.Volume.Name, Type: t.Name(), Path: a.Dir, ReadOnly: n.ReadOnly,
		Size: volume.SizeOfMount}
	return m, Mount(t.Mounts, a.Dir, Export{Server: n.Server, Path: n.Path, ReadOnly: n.ReadOnly})
}

// TearDown unmounts the volume and removes the directory it was mounted on.
func (t Plugin) TearDown(_ context.Context, dir string) error { return volumedir.Remove(t.Mounts, dir) }

// Export is a directory of a server.
type Export struct {
	Server, Path string
	ReadOnly     bool
	Options      []string // of mount(8)
}

// source is server:path; a bare IPv6 address stands in brackets.
func (e Export) source() string {
	server := e.Server
	if ip, err := netip.ParseAddr(server); err == nil && ip.Is6() {
		server = "[" + server + "]"
	}
	return server + ":" + e.Path
}

// Mount mounts the export on dir. It can be repeated. The server owns the files: no fsGroup is
// applied.
func Mount(m volume.Mounter, dir string, e Export) error {
	if mounted, err := m.IsMountPoint(dir); err != nil || mounted {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	options := e.Options
	if e.ReadOnly {
		options = append(options[:len(options):len(options)], "ro")
	}
	if err := m.Mount(e.source(), dir, "nfs", options); err != nil {
		return fmt.Errorf("%w", errors.Join(err, volumedir.Empty(m, dir)))
	}
	return nil
}
