package csi

import (
	"context"
	"fmt"
	"os"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// MountDevice waits until the volume is attached and has the driver stage it. A driver that does
// not stage is not asked.
func (p Plugin) MountDevice(ctx context.Context, a volume.DeviceMounterArgs) error {
	x, err := p.Drivers.find(a.Data.DriverName)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: %w", err)
	}
	obj, err := p.csiDriver(ctx, a.Data.DriverName)
	if err != nil {
		return err
	}
	published, err := p.publishContext(ctx, obj, a)
	if err != nil {
		return err
	}
	stages, err := x.can(ctx, csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	if err != nil || !stages {
		return err
	}
	source := a.Spec.PersistentVolume.Spec.CSI
	secrets, err := p.secrets(ctx, source.NodeStageSecretRef)
	if err != nil {
		return fmt.Errorf("fetching NodeStageSecretRef %s/%s failed: %w", source.NodeStageSecretRef.Namespace,
			source.NodeStageSecretRef.Name, err)
	}
	group, err := x.mountGroup(ctx, a.FSGroup)
	if err != nil {
		return err
	}
	c, err := x.capability(ctx, usage{a.Spec, a.MountOptions, group})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.Data.DeviceMountPath, 0o750); err != nil {
		return fmt.Errorf("kubernetes.io/csi: attacher.MountDevice failed to create dir %#v: %w",
			a.Data.DeviceMountPath,
			err)
	}
	if a.Attempted != nil {
		a.Attempted(a.Data.DeviceMountPath)
	}
	_, err = x.node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{VolumeId: a.Data.VolumeHandle,
		PublishContext: published, StagingTargetPath: a.Data.DeviceMountPath, VolumeCapability: c, Secrets: secrets,
		VolumeContext: source.VolumeAttributes})
	return err
}

// mountGroup is the group for the driver to mount with; empty when the kubelet has to give the
// volume to the group, or when there is none.
func (x *driver) mountGroup(ctx context.Context, group *int64) (string, error) {
	if group == nil {
		return "", nil
	}
	does, err := x.can(ctx, csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	if err != nil || !does {
		return "", err
	}
	return strconv.FormatInt(*group, 10), nil
}

// UnmountDevice has the driver unstage the volume.
func (p Plugin) UnmountDevice(ctx context.Context, d volume.VolumeData) error {
	x, err := p.Drivers.find(d.DriverName)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: attacher.UnmountDevice failed to create newCsiDriverClient: %w", err)
	}
	stages, err := x.can(ctx, csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	if err != nil {
		return err
	}
	if stages {
		_, err := x.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: d.VolumeHandle,
			StagingTargetPath: d.DeviceMountPath})
		if err != nil {
			return err
		}
	}
	if err := volumedir.Empty(p.Mounts, d.DeviceMountPath); err != nil {
		return err
	}
	x.forgetSize(d.VolumeHandle)
	p.Attach.Unused(UniqueVolumeName(d.DriverName, d.VolumeHandle))
	return nil
}
