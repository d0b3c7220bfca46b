package csi

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// accessMode is the mode that a driver is told: the first of the PersistentVolume, as upstream.
func accessMode(s volume.Spec, singleNodeModes bool) csipb.VolumeCapability_AccessMode_Mode {
	mode := v1.ReadWriteOnce
	if pv := s.PersistentVolume; pv != nil && len(pv.Spec.AccessModes) > 0 {
		mode = pv.Spec.AccessModes[0]
	}
	switch {
	case mode == v1.ReadOnlyMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == v1.ReadWriteMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == v1.ReadWriteOncePod && singleNodeModes:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case mode == v1.ReadWriteOnce && singleNodeModes:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
	return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

func fsType(s volume.Spec) string {
	if s.PersistentVolume != nil {
		return s.PersistentVolume.Spec.CSI.FSType
	}
	if t := s.Volume.CSI.FSType; t != nil {
		return *t
	}
	return ""
}

// readOnly is whether the Pod may only read: the claim's word, or the inline volume's.
func readOnly(s volume.Spec) bool {
	if s.PersistentVolume != nil {
		return s.ReadOnly
	}
	return s.Volume.CSI.ReadOnly != nil && *s.Volume.CSI.ReadOnly
}

// usage is how a volume is used.
type usage struct {
	spec         volume.Spec
	mountOptions []string
	group        string // for the driver to mount with; empty: the driver does not do that
}

// capability is how the driver is told of the usage.
func (x *driver) capability(ctx context.Context, u usage) (*csipb.VolumeCapability, error) {
	single, err := x.can(ctx, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
	if err != nil {
		return nil, err
	}
	c := &csipb.VolumeCapability{AccessMode: &csipb.VolumeCapability_AccessMode{Mode: accessMode(u.spec, single)}}
	if u.spec.Block() {
		c.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
		return c, nil
	}
	c.AccessType = &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: fsType(u.spec),
		MountFlags: u.mountOptions, VolumeMountGroup: u.group}}
	return c, nil
}

// appliesFSGroup tells whether the kubelet gives the volume to the Pod's group, by the driver's
// fsGroupPolicy.
func appliesFSGroup(obj *storagev1.CSIDriver, s volume.Spec) bool {
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if obj != nil && obj.Spec.FSGroupPolicy != nil {
		policy = *obj.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	if fsType(s) == "" {
		return false
	}
	if s.PersistentVolume == nil {
		return true
	}
	for _, m := range s.PersistentVolume.Spec.AccessModes {
		if m == v1.ReadWriteOnce || m == v1.ReadWriteOncePod {
			return true
		}
	}
	return false
}
