package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/fsgroup"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// republishInterval is how often a driver with requiresRepublish is asked again: upstream does when
// it looks at the Pod, each minute unless syncFrequency says otherwise.
const republishInterval = time.Minute

// SetUp has the driver publish the volume for the Pod.
func (p Plugin) SetUp(ctx context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	m := volume.Mounted{ReadOnly: readOnly(a.Spec), Device: a.Spec.Block(), Size: volume.SizeOfMount,
		Driver: volume.DriverVolume{Name: a.Data.DriverName, Handle: a.Data.VolumeHandle,
			Staged: a.Data.DeviceMountPath}}
	if m.Device {
		m.Size = volume.SizeOfBlock
	}
	var err error
	if m.Path, err = p.targetPath(a.Dir, a.Data); err != nil {
		return m, err
	}
	x, err := p.Drivers.find(a.Data.DriverName)
	if err != nil {
		return m, fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: %w", err)
	}
	obj, err := p.csiDriver(ctx, a.Data.DriverName)
	if err != nil {
		return m, err
	}
	if err := checkLifecycle(obj, a); err != nil {
		return m, err
	}
	if err := p.checkSELinux(obj, a); err != nil {
		return m, err
	}
	r, refresh, err := p.publishRequest(ctx, x, obj, a)
	if err != nil {
		return m, err
	}
	r.TargetPath, r.Readonly = m.Path, m.ReadOnly
	if err := p.prepareTarget(a, m.Path); err != nil {
		return m, err
	}
	if a.Attempted != nil {
		a.Attempted(m.Path)
	}
	if _, err := x.node.NodePublishVolume(ctx, r); err != nil {
		return m, err
	}
	if obj != nil && obj.Spec.RequiresRepublish != nil && *obj.Spec.RequiresRepublish {
		m.RefreshAt = time.Now().Add(republishInterval)
		if !refresh.IsZero() && refresh.Before(m.RefreshAt) {
			m.RefreshAt = refresh
		}
	}
	if a.Spec.PersistentVolume != nil && m.RefreshAt.IsZero() {
		m.RefreshAt = time.Now().Add(expandInterval)
	}
	if !m.Device && r.VolumeCapability.GetMount().GetVolumeMountGroup() == "" && appliesFSGroup(obj, a.Spec) {
		if err := fsgroup.SetVolumeOwnership(a, m.Path, m.ReadOnly); err != nil {
			return m, fmt.Errorf("applyFSGroup failed for vol %s: %w", a.Data.VolumeHandle, err)
		}
	}
	if a.Spec.PersistentVolume == nil {
		return m, nil
	}
	if err := p.expand(ctx, x, a, expansion{path: m.Path, usage: r.VolumeCapability}); err != nil {
		return m, volume.PartError{Part: volume.Expanding, Err: err}
	}
	return m, nil
}

// checkLifecycle refuses volumes in a lifecycle that the driver does not serve.
func checkLifecycle(obj *storagev1.CSIDriver, a volume.MounterArgs) error {
	want := storagev1.VolumeLifecyclePersistent
	if a.Spec.PersistentVolume == nil {
		want = storagev1.VolumeLifecycleEphemeral
	}
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	if obj != nil && len(obj.Spec.VolumeLifecycleModes) > 0 {
		modes = obj.Spec.VolumeLifecycleModes
	}
	for _, m := range modes {
		if m == want {
			return nil
		}
	}
	if obj == nil {
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", want, a.Data.DriverName)
	}
	return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", want, a.Data.DriverName, modes)
}

// checkSELinux refuses volumes that upstream mounts with the option context= of SELinux: mounted
// without it they would have another label than the Pod was promised. It is so on nodes with
// SELinux alone, for Pods with a label of their own, of drivers that say seLinuxMount. Devices are
// not mounted, and the volumes of a Pod with seLinuxChangePolicy Recursive are labelled by the
// runtime, upstream too.
func (p Plugin) checkSELinux(obj *storagev1.CSIDriver, a volume.MounterArgs) error {
	if !p.SELinux || obj == nil || obj.Spec.SELinuxMount == nil || !*obj.Spec.SELinuxMount || a.Data.Block ||
		!labelled(a.Pod) {
		return nil
	}
	if s := a.Pod.Spec.SecurityContext; s != nil && s.SELinuxChangePolicy != nil &&
		*s.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive {
		return nil
	}
	return fmt.Errorf("the SELinux mount option is not served: the CSIDriver %s has seLinuxMount: true, and the Pod "+
		"seLinuxOptions; set securityContext.seLinuxChangePolicy: Recursive of the Pod, or seLinuxMount: false, and "+
		"the runtime labels the volume's files", a.Data.DriverName)
}

// labelled tells whether a Pod, or one of its containers, has SELinux options.
func labelled(pod *v1.Pod) bool {
	if s := pod.Spec.SecurityContext; s != nil && s.SELinuxOptions != nil {
		return true
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil {
			return true
		}
	}
	return false
}

// publishRequest is what the driver is told, and when it has to be told anew.
func (p Plugin) publishRequest(ctx context.Context, x *driver, obj *storagev1.CSIDriver,
	a volume.MounterArgs) (*csipb.NodePublishVolumeRequest, time.Time, error) {
	var none time.Time
	r := &csipb.NodePublishVolumeRequest{VolumeId: a.Data.VolumeHandle, VolumeContext: map[string]string{}}
	var ref *v1.SecretReference
	if pv := a.Spec.PersistentVolume; pv != nil {
		ref = pv.Spec.CSI.NodePublishSecretRef
		maps.Copy(r.VolumeContext, pv.Spec.CSI.VolumeAttributes)
	} else {
		if s := a.Spec.Volume.CSI.NodePublishSecretRef; s != nil {
			ref = &v1.SecretReference{Name: s.Name, Namespace: a.Pod.Namespace}
		}
		maps.Copy(r.VolumeContext, a.Spec.Volume.CSI.VolumeAttributes)
	}
	var err error
	if r.Secrets, err = p.secrets(ctx, ref); err != nil {
		return nil, none, fmt.Errorf("fetching NodePublishSecretRef %s/%s failed: %w", ref.Namespace, ref.Name, err)
	}
	if a.Data.DeviceMountPath != "" {
		if r.PublishContext, err = p.publishContext(ctx, obj, volume.DeviceMounterArgs{Data: a.Data}); err != nil {
			return nil, none, err
		}
		stages, err := x.can(ctx, csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
		if err != nil {
			return nil, none, err
		}
		if stages {
			r.StagingTargetPath = a.Data.DeviceMountPath
		}
	}
	group, err := x.mountGroup(ctx, a.FSGroup)
	if err != nil {
		return nil, none, err
	}
	if r.VolumeCapability, err = x.capability(ctx, usage{a.Spec, a.MountOptions, group}); err != nil {
		return nil, none, err
	}
	if obj == nil {
		return r, none, nil
	}
	if info := obj.Spec.PodInfoOnMount; info != nil && *info {
		maps.Copy(r.VolumeContext, podInfo(a))
	}
	refresh, err := p.addTokens(ctx, obj, a.Pod, r)
	return r, refresh, err
}

// podInfo is what drivers with podInfoOnMount learn.
func podInfo(a volume.MounterArgs) map[string]string {
	return map[string]string{
		"csi.storage.k8s.io/pod.name":            a.Pod.Name,
		"csi.storage.k8s.io/pod.namespace":       a.Pod.Namespace,
		"csi.storage.k8s.io/pod.uid":             string(a.Pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": a.Pod.Spec.ServiceAccountName,
		"csi.storage.k8s.io/ephemeral":           fmt.Sprint(a.Spec.PersistentVolume == nil),
	}
}

// upstreamData is the vol_data.json that upstream's kubelet keeps beside what is mounted, which
// some drivers read.
type upstreamData struct {
	SpecVolID           string `json:"specVolID"`
	VolumeHandle        string `json:"volumeHandle"`
	DriverName          string `json:"driverName"`
	NodeName            string `json:"nodeName"`
	AttachmentID        string `json:"attachmentID"`
	VolumeLifecycleMode string `json:"volumeLifecycleMode"`
}

const volumeDataFile = "vol_data.json"

// prepareTarget makes the directory that the volume is published in.
func (p Plugin) prepareTarget(a volume.MounterArgs, target string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return fmt.Errorf("kubernetes.io/csi: failed to create dir %#v: %w", filepath.Dir(target), err)
	}
	if a.Spec.Block() {
		return os.MkdirAll(a.Dir, 0o750)
	}
	mode := storagev1.VolumeLifecyclePersistent
	if a.Spec.PersistentVolume == nil {
		mode = storagev1.VolumeLifecycleEphemeral
	}
	text, err := json.Marshal(upstreamData{SpecVolID: a.Spec.Name(), VolumeHandle: a.Data.VolumeHandle,
		DriverName: a.Data.DriverName, NodeName: p.NodeName, VolumeLifecycleMode: string(mode),
		AttachmentID: AttachmentName(a.Data.VolumeHandle, a.Data.DriverName, p.NodeName)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.Dir, volumeDataFile), text, 0o600)
}

// TearDown has the driver unpublish the volume.
func (p Plugin) TearDown(ctx context.Context, a volume.UnmounterArgs) error {
	target, err := p.targetPath(a.Dir, a.Data)
	if err != nil {
		return err
	}
	if a.Data.VolumeHandle != "" { // else nothing was ever asked of a driver
		x, err := p.Drivers.find(a.Data.DriverName)
		if err != nil {
			return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: %w", err)
		}
		_, err = x.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: a.Data.VolumeHandle,
			TargetPath: target})
		if err != nil {
			return err
		}
	}
	if a.Data.Block {
		if err := removeFile(target); err != nil {
			return err
		}
		_ = os.Remove(filepath.Dir(target)) // another Pod's may be there
	} else if err := volumedir.Empty(p.Mounts, target); err != nil {
		return fmt.Errorf("kubernetes.io/csi: mounter.TearDownAt failed to clean mount dir [%s]: %w", target, err)
	}
	if err := removeFile(filepath.Join(a.Dir, volumeDataFile)); err != nil {
		return err
	}
	return volumedir.Empty(p.Mounts, a.Dir)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
