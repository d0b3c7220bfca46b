package csidriver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Reasons of the driver's reports, as Pods and CSINodes show them.
const (
	reasonDirectoryMissing   = "DirectoryMissing"
	reasonRecordDamaged      = "RecordDamaged"
	reasonImageMissing       = "ImageMissing"
	reasonImageTruncated     = "ImageTruncated"
	reasonImageDamaged       = "ImageDamaged"
	reasonFilesystemErrors   = "FilesystemErrors"
	reasonFilesystemReadOnly = "FilesystemReadOnly"
	reasonInputOutputError   = "InputOutputError"
	reasonDiskFull           = "DiskFull"
)

// NodeGetVolumeHealth says what is wrong with a volume on this node; nothing is when it is well. It
// takes no lock: a volume that is being copied is looked at too. A volume that is nowhere on the
// node is NotFound.
func (d *Driver) NodeGetVolumeHealth(_ context.Context,
	r *csipb.NodeGetVolumeHealthRequest) (*csipb.NodeGetVolumeHealthResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	out := &csipb.VolumeHealth{VolumeId: id}
	paths := mountedPaths(r.GetStagingTargetPath(), r.GetVolumePublishPath())
	v, err := d.store.volumes.get(id)
	switch {
	case err != nil:
		out.HealthStatuses = []*csipb.VolumeHealth_VolumeHealthEntry{damagedRecord(err)}
	case v == nil && len(paths) == 0:
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", id)
	case v == nil:
		out.HealthStatuses = []*csipb.VolumeHealth_VolumeHealthEntry{
			volumeHealthEntry(csipb.VolumeHealthErrorType_INACCESSIBLE,
				reasonDirectoryMissing, "%s is gone; what is mounted goes with its last Pod", d.store.volumes.path(id))}
	default:
		out.HealthStatuses = append(d.dataHealth(v), filesystemHealth(paths)...)
	}
	return &csipb.NodeGetVolumeHealthResponse{VolumeHealth: out}, nil
}

// ControllerGetVolumeHealth says what is wrong with a volume's files, wherever it is mounted. A
// volume that the driver does not have is NotFound.
func (d *Driver) ControllerGetVolumeHealth(_ context.Context,
	r *csipb.ControllerGetVolumeHealthRequest) (*csipb.ControllerGetVolumeHealthResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	out := &csipb.VolumeHealth{VolumeId: id}
	switch v, err := d.store.volumes.get(id); {
	case err != nil:
		out.HealthStatuses = []*csipb.VolumeHealth_VolumeHealthEntry{damagedRecord(err)}
	case v == nil:
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", id)
	default:
		out.HealthStatuses = d.dataHealth(v)
	}
	return &csipb.ControllerGetVolumeHealthResponse{VolumeHealth: out}, nil
}

// damagedRecord is the health entry of a volume whose record cannot be read.
func damagedRecord(err error) *csipb.VolumeHealth_VolumeHealthEntry {
	return volumeHealthEntry(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonRecordDamaged,
		"what is noted of the volume cannot be read: %v", err)
}

// volumeHealthEntry is one thing that is wrong with a volume.
func volumeHealthEntry(t csipb.VolumeHealthErrorType, reason, format string,
	args ...any) *csipb.VolumeHealth_VolumeHealthEntry {
	return &csipb.VolumeHealth_VolumeHealthEntry{Status: t, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// dataHealth looks at the volume's files.
func (d *Driver) dataHealth(v *record) []*csipb.VolumeHealth_VolumeHealthEntry {
	one := func(t csipb.VolumeHealthErrorType, reason, format string,
		args ...any) []*csipb.VolumeHealth_VolumeHealthEntry {
		return []*csipb.VolumeHealth_VolumeHealthEntry{volumeHealthEntry(t, reason, format, args...)}
	}
	if v.Kind != kindImage {
		if _, err := os.Stat(d.store.volumes.dataDir(v.ID)); err != nil {
			return one(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonDirectoryMissing, "%v", err)
		}
		return nil
	}
	image := d.store.volumes.image(v.ID)
	info, err := os.Stat(image)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return one(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonImageMissing, "%s is gone", image)
	case err != nil:
		return one(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonInputOutputError, "%v", err)
	case info.Size() < v.Size:
		return one(csipb.VolumeHealthErrorType_DATA_LOSS, reasonImageTruncated, "%s has %d bytes, the volume %d", image,
			info.Size(), v.Size)
	case v.Block || v.FSType == "":
		return nil
	}
	switch has, err := readSuperblock(image); {
	case err != nil:
		return one(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonInputOutputError, "%v", err)
	case has.fs != v.FSType:
		return one(csipb.VolumeHealthErrorType_DATA_LOSS, reasonImageDamaged,
			"%s holds no file system any more, where one of type %s was", image, v.FSType)
	}
	return nil
}

// mountInfo is a line of /proc/self/mountinfo.
type mountInfo struct {
	path, device        string // device as MAJOR:MINOR
	readOnly, fsIsFixed bool   // this mount, and its whole file system, take no writes
	shutdown            bool   // the file system answers with errors until it is mounted anew
}

// mountedPaths are those of the paths that something is mounted at.
func mountedPaths(paths ...string) []mountInfo {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	return parseMounts(f, paths)
}

// parseMounts reads the lines of the given paths; of several mounts over each other the last
// counts.
func parseMounts(from io.Reader, paths []string) []mountInfo {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	found := map[string]mountInfo{}
	for lines := bufio.NewScanner(from); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 6 || len(super) < 3 {
			continue
		}
		m := mountInfo{path: unescape.Replace(mount[4]), device: mount[2],
			readOnly: hasOption(mount[5], "ro"), shutdown: hasOption(super[2], "shutdown"),
			fsIsFixed: hasOption(super[2], "ro") || hasOption(super[2], "emergency_ro")} // ext4 since Linux 6.15
		found[m.path] = m
	}
	var out []mountInfo
	for _, path := range paths {
		if m, ok := found[path]; ok {
			out = append(out, m)
		}
	}
	return out
}

func hasOption(list, name string) bool {
	for _, o := range strings.Split(list, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// filesystemHealth asks the kernel about what is mounted. A file system that takes no writes though
// its mount was made for them was set so by the kernel, for an error.
func filesystemHealth(mounts []mountInfo) (out []*csipb.VolumeHealth_VolumeHealthEntry) {
	seen := map[string]bool{}
	add := func(t csipb.VolumeHealthErrorType, reason, format string, args ...any) {
		if !seen[reason] {
			seen[reason] = true
			out = append(out, volumeHealthEntry(t, reason, format, args...))
		}
	}
	for _, m := range mounts {
		if n := errorsOf(m.device); n > 0 {
			add(csipb.VolumeHealthErrorType_DATA_LOSS, reasonFilesystemErrors,
				"the kernel found %d errors in the file system at %s; it is checked when its Pods start again",
				n, m.path)
		}
		if m.fsIsFixed && !m.readOnly {
			add(csipb.VolumeHealthErrorType_DEGRADED, reasonFilesystemReadOnly,
				"the kernel has set the file system at %s read-only", m.path)
		}
		if m.shutdown {
			add(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonInputOutputError,
				"the kernel has shut the file system at %s down", m.path)
		}
		if err := readable(m.path); err != nil {
			add(csipb.VolumeHealthErrorType_INACCESSIBLE, reasonInputOutputError, "%v", err)
		}
	}
	return out
}

// errorsOf is how many errors ext4 noted of the file system on a block device; 0 for another kind.
func errorsOf(device string) int {
	name, err := os.Readlink("/sys/dev/block/" + device)
	if err != nil {
		return 0
	}
	text, err := os.ReadFile("/sys/fs/ext4/" + filepath.Base(name) + "/errors_count")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // the kernel writes a number
	return n
}

// readable reads the directory that is mounted; a file, which is a device, is looked at only.
func readable(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err = dir.Readdirnames(1); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// NodeGetStorageHealth says what is wrong with the directory of the volumes and its disk.
func (d *Driver) NodeGetStorageHealth(context.Context,
	*csipb.NodeGetStorageHealthRequest) (*csipb.NodeGetStorageHealthResponse, error) {
	out := &csipb.NodeGetStorageHealthResponse{}
	add := func(t csipb.StorageHealthErrorType, reason, format string, args ...any) {
		out.BackendHealth = append(out.BackendHealth, &csipb.NodeGetStorageHealthResponse_StorageBackendHealth{
			Status: t, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	var st unix.Statfs_t
	switch err := unix.Statfs(d.store.volumes.dir, &st); {
	case errors.Is(err, unix.ENOENT):
		add(csipb.StorageHealthErrorType_STORAGE_UNREACHABLE, reasonDirectoryMissing, "%s is gone", d.store.volumes.dir)
	case err != nil:
		add(csipb.StorageHealthErrorType_STORAGE_UNREACHABLE, reasonInputOutputError, "statfs %s: %v",
			d.store.volumes.dir, err)
	case st.Flags&unix.ST_RDONLY != 0:
		add(csipb.StorageHealthErrorType_STORAGE_DEGRADED, reasonFilesystemReadOnly,
			"the file system of %s is read-only", d.store.volumes.dir)
	case st.Bavail == 0:
		add(csipb.StorageHealthErrorType_STORAGE_DEGRADED, reasonDiskFull,
			"the disk of %s is full: volumes whose images have holes cannot be written", d.store.volumes.dir)
	}
	return out, nil
}
