package csidriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/linux/loop"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// NodeGetInfo is the node's name, and that volumes are its own.
func (d *Driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return &csipb.NodeGetInfoResponse{NodeId: d.o.NodeID, AccessibleTopology: d.topology()}, nil
}

// NodeGetCapabilities is what the node service does.
func (d *Driver) NodeGetCapabilities(context.Context,
	*csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	out := &csipb.NodeGetCapabilitiesResponse{}
	for _, t := range []csipb.NodeServiceCapability_RPC_Type{
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csipb.NodeServiceCapability_RPC_EXPAND_VOLUME, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csipb.NodeServiceCapability_RPC_GET_VOLUME_HEALTH, csipb.NodeServiceCapability_RPC_GET_STORAGE_HEALTH,
	} {
		out.Capabilities = append(out.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// NodeStageVolume mounts the volume at the staging path; a raw one gets its loop device.
func (d *Driver) NodeStageVolume(ctx context.Context,
	r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument,
			"volume_id, staging_target_path and volume_capability are required")
	}
	unlock, err := d.acquireLock(ctx, r.GetVolumeId(), "volume/"+r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := checkMode(v, r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	return &csipb.NodeStageVolumeResponse{}, d.stage(ctx, v, r.GetStagingTargetPath(),
		r.GetVolumeCapability().GetMount().GetMountFlags())
}

// checkMode refuses to use a raw volume as file system, and the other way round.
func checkMode(v *record, c *csipb.VolumeCapability) error {
	block, err := checkCapabilities([]*csipb.VolumeCapability{c})
	if err == nil && block != v.Block {
		err = status.Errorf(codes.InvalidArgument, "the mode of volume %s is another", v.ID)
	}
	if err != nil {
		return err
	}
	return v.checkFSType(c.GetMount().GetFsType())
}

func (d *Driver) stage(ctx context.Context, v *record, target string, options []string) error {
	dev := ""
	var err error
	if v.Kind == kindImage {
		if dev, err = loop.Attach(d.store.volumes.image(v.ID)); err != nil || v.Block {
			return err
		}
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	if mounted, err := (mount.Mounter{}).IsMountPoint(target); err != nil || mounted {
		return err
	}
	if v.Kind == kindDirectory {
		return mount.Mounter{}.Bind(d.store.volumes.dataDir(v.ID), target, false)
	}
	if err := d.prepareFS(ctx, v, dev); err != nil {
		return err
	}
	t := fileSystems[v.FSType]
	if err := (mount.Mounter{}).Mount(dev, target, v.FSType, slices.Concat(t.options, options)); err != nil {
		return err
	}
	if small, err := isSmaller(dev); err != nil || !small || !t.growsMounted {
		return err
	}
	return growMounted(ctx, t, dev, target)
}

// prepareFS makes the file system of a new volume and notes it, or checks the one that is there.
// The device decides, for the record of a copy may be older than its data. One that is smaller than
// the device grows: it was copied from a smaller volume, or the volume grew. XFS grows once it is
// mounted.
func (d *Driver) prepareFS(ctx context.Context, v *record, dev string) error {
	has, err := readSuperblock(dev)
	if err != nil {
		return err
	}
	t := fileSystems[cmp.Or(has.fs, v.fsType())]
	if v.FSType == "" && has.fs == "" {
		err = makeFS(ctx, t, dev)
	} else if err = checkFS(ctx, t, dev); err == nil {
		err = growUnmounted(ctx, t, dev)
	}
	if err != nil || v.FSType == t.name {
		return err
	}
	v.FSType = t.name
	return d.store.volumes.put(v)
}

// NodeUnstageVolume takes the volume from the staging path.
func (d *Driver) NodeUnstageVolume(ctx context.Context,
	r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id and staging_target_path are required")
	}
	unlock, err := d.acquireLock(ctx, r.GetVolumeId(), "volume/"+r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := (mount.Mounter{}).Unmount(r.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	v, err := d.store.volumes.get(r.GetVolumeId())
	if err != nil || v == nil || v.Kind != kindImage {
		return &csipb.NodeUnstageVolumeResponse{}, err
	}
	return &csipb.NodeUnstageVolumeResponse{}, loop.Detach(d.store.volumes.image(v.ID))
}

// NodePublishVolume shows the volume at the target path. An ephemeral volume is made first.
func (d *Driver) NodePublishVolume(ctx context.Context,
	r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetTargetPath() == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "volume_id, target_path and volume_capability are required")
	}
	unlock, err := d.holdForUse(ctx, r)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] == "true" {
		if err := d.createEphemeral(ctx, r); err != nil {
			return nil, err
		}
	}
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := checkMode(v, r.GetVolumeCapability()); err != nil {
		return nil, err
	}
	target := r.GetTargetPath()
	if mounted, err := (mount.Mounter{}).IsMountPoint(target); err != nil || mounted {
		return &csipb.NodePublishVolumeResponse{}, err
	}
	if v.Ephemeral {
		return &csipb.NodePublishVolumeResponse{}, d.stage(ctx, v, target, nil)
	}
	source, err := d.staged(v, r.GetStagingTargetPath())
	if err != nil {
		return nil, err
	}
	if err := d.checkOneWriter(v, r); err != nil {
		return nil, err
	}
	if err := makeTarget(target, v.Block); err != nil {
		return nil, err
	}
	return &csipb.NodePublishVolumeResponse{}, mount.Mounter{}.Bind(source, target, r.GetReadonly())
}

// staged is what is shown at a target path: the staged file system, or the loop device of a raw
// volume.
func (d *Driver) staged(v *record, at string) (string, error) {
	if v.Block {
		dev, err := loop.Device(resolvedPath(d.store.volumes.image(v.ID)))
		if err == nil && dev == "" {
			err = status.Errorf(codes.FailedPrecondition, "volume %s is not staged", v.ID)
		}
		return dev, err
	}
	if at == "" {
		return "", status.Errorf(codes.FailedPrecondition, "volume %s is not staged", v.ID)
	}
	mounted, err := (mount.Mounter{}).IsMountPoint(at)
	if err == nil && !mounted {
		err = status.Errorf(codes.FailedPrecondition, "volume %s is not staged at %s", v.ID, at)
	}
	return at, err
}

// checkOneWriter refuses a second target path of a volume with the access mode
// SINGLE_NODE_SINGLE_WRITER, as the specification says: one that is mounted anywhere but at its
// staging path.
func (d *Driver) checkOneWriter(v *record, r *csipb.NodePublishVolumeRequest) error {
	mode := r.GetVolumeCapability().GetAccessMode().GetMode()
	if mode != csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		return nil
	}
	at, err := mountsOf(d.store.volumes, v)
	if err != nil {
		return err
	}
	staging := resolvedPath(r.GetStagingTargetPath())
	for _, path := range at {
		if path != staging {
			return status.Errorf(codes.FailedPrecondition, "volume %s is for one writer, and is published at %s", v.ID,
				path)
		}
	}
	return nil
}

// holdForUse takes the locks under which a volume is published: a raw device is not while it is
// copied.
func (d *Driver) holdForUse(ctx context.Context, r *csipb.NodePublishVolumeRequest) (release func(), err error) {
	if r.GetVolumeCapability().GetBlock() != nil {
		return d.acquireLock(ctx, r.GetVolumeId(), "volume/"+r.GetVolumeId())
	}
	return d.locks.lock(ctx, r.GetVolumeId())
}

func resolvedPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// makeTarget makes what is mounted on: a file for a device.
func makeTarget(target string, file bool) error {
	if !file {
		return os.MkdirAll(target, 0o750)
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// createEphemeral makes the volume that lives as long as its Pod.
func (d *Driver) createEphemeral(ctx context.Context, r *csipb.NodePublishVolumeRequest) error {
	v, err := d.store.volumes.get(r.GetVolumeId())
	if err != nil || v != nil {
		return err
	}
	size := int64(defaultSize)
	if text := r.GetVolumeContext()["size"]; text != "" {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Value() <= 0 {
			return status.Errorf(codes.InvalidArgument, "volumeAttributes.size is %q, want a quantity like 1Gi", text)
		}
		size = q.Value()
	}
	v, err = newRecord(r.GetVolumeId(), r.GetVolumeContext(), []*csipb.VolumeCapability{r.GetVolumeCapability()})
	if err != nil {
		return err
	}
	if v.Size, err = sizeIn(&csipb.CapacityRange{RequiredBytes: size}, v.smallest()); err != nil {
		return err
	}
	if !plainID.MatchString(r.GetVolumeId()) {
		return status.Errorf(codes.InvalidArgument, "volume_id %q is not served", r.GetVolumeId())
	}
	v.Ephemeral = true
	return d.fill(ctx, v)
}

// NodeUnpublishVolume takes the volume from the target path; an ephemeral one is removed.
func (d *Driver) NodeUnpublishVolume(ctx context.Context,
	r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetTargetPath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id and target_path are required")
	}
	unlock, err := d.locks.lock(ctx, r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := (mount.Mounter{}).Unmount(r.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := os.Remove(r.GetTargetPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	v, err := d.store.volumes.get(r.GetVolumeId())
	if err != nil || v == nil || !v.Ephemeral {
		return &csipb.NodeUnpublishVolumeResponse{}, err
	}
	return &csipb.NodeUnpublishVolumeResponse{}, d.remove(v)
}

// NodeExpandVolume grows the file system of a mounted volume to the volume's size. It waits while
// the volume is copied, for its file system stands still then.
func (d *Driver) NodeExpandVolume(ctx context.Context,
	r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	if r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_path is missing")
	}
	unlock, err := d.acquireLock(ctx, r.GetVolumeId(), "volume/"+r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := pathExists(r.GetVolumePath()); err != nil {
		return nil, err
	}
	if want := r.GetCapacityRange().GetRequiredBytes(); want > v.Size {
		return nil, status.Errorf(codes.OutOfRange, "volume %s has %d bytes, not the %d asked for", v.ID, v.Size, want)
	}
	if v.Kind == kindImage {
		dev, err := loop.Device(resolvedPath(d.store.volumes.image(v.ID)))
		if err != nil {
			return nil, err
		}
		if dev != "" {
			err = loop.Resize(dev)
			if err == nil && !v.Block {
				err = growMounted(ctx, fileSystems[v.fsType()], dev, r.GetVolumePath())
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}

func pathExists(path string) error {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return status.Errorf(codes.NotFound, "nothing is mounted at %s", path)
	}
	return err
}

// NodeGetVolumeStats is how full the volume is.
func (d *Driver) NodeGetVolumeStats(_ context.Context,
	r *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	if r.GetVolumePath() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_path is missing")
	}
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := pathExists(r.GetVolumePath()); err != nil {
		return nil, err
	}
	if v.Block {
		return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
			{Unit: csipb.VolumeUsage_BYTES, Total: v.Size}}}, nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(r.GetVolumePath(), &st); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", r.GetVolumePath(), err)
	}
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Unit: csipb.VolumeUsage_BYTES, Total: int64(st.Blocks) * st.Bsize, Available: int64(st.Bavail) * st.Bsize,
			Used: int64(st.Blocks-st.Bfree) * st.Bsize},
		{Unit: csipb.VolumeUsage_INODES, Total: int64(st.Files), Available: int64(st.Ffree),
			Used: int64(st.Files - st.Ffree)}}}, nil
}
