package csidriver_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"

	"github.com/gantry-project/gantry/test/expect"
)

// On a disk with project quotas, of both file systems that have them, a directory takes no more
// than its size, nor does a copy, until it grows; its Pods see the size as that of their disk.
func TestTheKernelLimitsDirectories(t *testing.T) {
	for fs, makes := range map[string][]string{"xfs": nil, "ext4": {"-O", "quota,project"}} {
		t.Run(fs, func(t *testing.T) {
			onDisk(t, fs, 512<<20, diskOptions{make: makes, mount: "prjquota"})
			d, o := newDriver(t)
			create := func(name, source string) {
				t.Helper()
				r := &csipb.CreateVolumeRequest{Name: name, Parameters: map[string]string{"type": "directory"},
					CapacityRange:      &csipb.CapacityRange{RequiredBytes: 16 << 20},
					VolumeCapabilities: []*csipb.VolumeCapability{capability}}
				if source != "" {
					r.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
						Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: source}}}
				}
				_, err := d.CreateVolume(t.Context(), r)
				expect.NoError(t, err)
			}
			write := func(file string, mib int) error {
				err := writeWithoutResources(t, file, make([]byte, mib<<20))
				if errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) {
					return errors.Join(errFull, os.Remove(file))
				}
				return err
			}
			create("first", "")
			expect.NoError(t, write(filepath.Join(o.Dir, "volumes/first/data/eight"), 8))
			create("copy", "first")
			for _, name := range []string{"first", "copy"} {
				at := used(t, d, o, name, "")
				if _, size := typeAndSize(t, at); size != 16 {
					t.Errorf("%s: got a disk of %d MiB, want 16", name, size)
				}
				if err := write(filepath.Join(at, "more"), 12); !errors.Is(err, errFull) {
					t.Errorf("%s: 20 of 16 MiB: got %v, want that it is full", name, err)
				}
				_, err := d.ControllerExpandVolume(t.Context(), &csipb.ControllerExpandVolumeRequest{VolumeId: name,
					CapacityRange: &csipb.CapacityRange{RequiredBytes: 32 << 20}})
				expect.NoError(t, err)
				if err := write(filepath.Join(at, "more"), 12); err != nil {
					t.Errorf("%s: 20 of 32 MiB: got %v, want no error", name, err)
				}
			}
		})
	}
}

var errFull = errors.New("full")

// writeWithoutResources writes a file as a container does: ext4 limits nobody with
// CAP_SYS_RESOURCE.
func writeWithoutResources(t *testing.T, file string, text []byte) error {
	t.Helper()
	runtime.LockOSThread() // a thread has its own
	defer runtime.UnlockOSThread()
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	expect.NoError(t, unix.Capget(&h, &has[0]))
	drops := has
	drops[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	expect.NoError(t, unix.Capset(&h, &drops[0]))
	err := os.WriteFile(file, text, 0o600)
	return errors.Join(err, unix.Capset(&h, &has[0]))
}
