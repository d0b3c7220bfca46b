package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// API is what the plugin reads of the API.
type API interface {
	volume.Tokens
	// GetCSIDriver is from a cache. A driver without an object is an API error NotFound.
	GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
	// ChangeClaim reads the volume's claim, and writes its status when change says that it changed
	// it; change may be called again for a newer version.
	ChangeClaim(ctx context.Context, pv *v1.PersistentVolume,
		change func(*v1.PersistentVolumeClaim) bool) (*v1.PersistentVolumeClaim, error)
	GetVolumeAttachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
}

// Attachments follows which volumes are attached to this node.
type Attachments interface {
	// WaitAttached reports the volume as in use and returns once the node's status has it among
	// volumesInUse and volumesAttached; the error is ctx's.
	WaitAttached(ctx context.Context, name v1.UniqueVolumeName) error
	// Unused takes it off the volumes in use.
	Unused(name v1.UniqueVolumeName)
}

// Plugin is csi.
type Plugin struct {
	Root     string // the kubelet's directory
	NodeName string
	Drivers  *Drivers
	API      API
	Attach   Attachments
	Mounts   volume.Mounter
	SELinux  bool // the node enforces or logs by SELinux
}

var (
	_ volume.DeviceMountableVolumePlugin = Plugin{}
	_ volume.BlockVolumePlugin           = Plugin{}
)

// Name is the field of the sources.
func (Plugin) Name() string { return "csi" }

// Dir is the plugin's directory.
func (Plugin) Dir() string { return "kubernetes.io~csi" }

// RequiresRemount is what the CSIDriver says in requiresRepublish.
func (p Plugin) RequiresRemount(s volume.Spec) bool {
	obj, err := p.API.GetCSIDriver(context.Background(), driverOf(s))
	return err == nil && obj.Spec.RequiresRepublish != nil && *obj.Spec.RequiresRepublish
}

func driverOf(s volume.Spec) string {
	if s.PersistentVolume != nil {
		return s.PersistentVolume.Spec.CSI.Driver
	}
	return s.Volume.CSI.Driver
}

// VolumeID is the driver and handle of the PersistentVolume; an inline volume gets a handle of its
// own, as upstream makes it.
func (Plugin) VolumeID(pod *v1.Pod, s volume.Spec) (volume.VolumeID, error) {
	if s.PersistentVolume == nil {
		return volume.VolumeID{DriverName: s.Volume.CSI.Driver,
			VolumeHandle: fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod.UID)+s.Volume.Name)))}, nil
	}
	c := s.PersistentVolume.Spec.CSI
	return volume.VolumeID{DriverName: c.Driver, VolumeHandle: c.VolumeHandle}, nil
}

// CanDeviceMount is true for PersistentVolumes.
func (Plugin) CanDeviceMount(s volume.Spec) bool { return s.PersistentVolume != nil }

// UniqueVolumeName is how the node's status calls a volume.
func UniqueVolumeName(driver, handle string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// AttachmentName is the name of the VolumeAttachment of a volume and a node.
func AttachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// csiDriver is the CSIDriver object; nil when the driver has none.
func (p Plugin) csiDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	obj, err := p.API.GetCSIDriver(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// attachable tells whether volumes of the driver are attached: unless its object says otherwise.
func attachable(obj *storagev1.CSIDriver) bool {
	return obj == nil || obj.Spec.AttachRequired == nil || *obj.Spec.AttachRequired
}

// publishContext waits until the volume is attached and is what the attacher says about it.
func (p Plugin) publishContext(ctx context.Context, obj *storagev1.CSIDriver,
	a volume.DeviceMounterArgs) (map[string]string, error) {
	d, verified := a.Data, a.Begin(volume.OperationVerifyAttached)
	if !attachable(obj) {
		verified(nil)
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := p.Attach.WaitAttached(ctx, UniqueVolumeName(d.DriverName, d.VolumeHandle))
	verified(err)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("timed out waiting for external-attacher of %s CSI driver to attach volume %s",
				d.DriverName,
				d.VolumeHandle)
			if p.limitExceeded(context.WithoutCancel(ctx), obj, d.DriverName,
				AttachmentName(d.VolumeHandle, d.DriverName, p.NodeName)) {
				err = volume.AttachLimitExceeded{Err: err}
			}
		}
		return nil, volume.PartError{Part: volume.WaitForAttach, Err: err}
	}
	name := AttachmentName(d.VolumeHandle, d.DriverName, p.NodeName)
	va, err := p.API.GetVolumeAttachment(ctx, name)
	switch {
	case err != nil:
		err = fmt.Errorf("volume %s has GET error for volume attachment %s: %w", d.VolumeHandle, name, err)
	case va.DeletionTimestamp != nil:
		err = errors.New("volume attachment is being deleted")
	case va.Status.Attached:
		return va.Status.AttachmentMetadata, nil
	case va.Status.AttachError != nil:
		err = errors.New(va.Status.AttachError.Message)
	default:
		err = fmt.Errorf("volume %s is not attached for volume attachment %s", d.VolumeHandle, name)
	}
	return nil, volume.PartError{Part: volume.WaitForAttach, Err: err}
}

// secrets are the data of the Secret that is referred to; none when nothing is.
func (p Plugin) secrets(ctx context.Context, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	got, err := p.API.GetSecret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("failed to find the secret %s in the namespace %s with error: %w", ref.Name,
			ref.Namespace,
			err)
	}
	out := map[string]string{}
	for key, value := range got.Data {
		out[key] = string(value)
	}
	return out, nil
}

// volumeDevicesDir is of raw volumes, below the kubelet's directory.
const volumeDevicesDir = "plugins/kubernetes.io/csi/volumeDevices"

// GlobalMapPath is upstream's.
func (Plugin) GlobalMapPath(specName string) string {
	return filepath.Join(volumeDevicesDir, specName, "dev")
}

// blockPath is where a block volume is published for a Pod, as upstream.
func (p Plugin) blockPath(specVolID, uid string) string {
	return filepath.Join(p.Root, volumeDevicesDir, "publish", specVolID, uid)
}

// podUID is the Pod's of a volume's directory, <root>/pods/<uid>/volumes/<plugin>/<name>.
func (p Plugin) podUID(dir string) (string, error) {
	rel, err := filepath.Rel(filepath.Join(p.Root, "pods"), dir)
	uid, _, _ := strings.Cut(rel, string(filepath.Separator))
	if err != nil || uid == "" || strings.HasPrefix(uid, ".") {
		return "", fmt.Errorf("%s is no directory of a Pod's volume", dir)
	}
	return uid, nil
}

// targetPath is where the volume is published for the Pod.
func (p Plugin) targetPath(dir string, d volume.VolumeData) (string, error) {
	if !d.Block {
		return filepath.Join(dir, "mount"), nil
	}
	uid, err := p.podUID(dir)
	if err != nil {
		return "", err
	}
	return p.blockPath(d.SpecVolID, uid), nil
}
