package volume

import (
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// DeviceMountableVolumePlugin is a Plugin whose volumes are staged on the node before Pods get them
// (CSI's NodeStageVolume): once, however many Pods of the node use the volume. A Plugin that does
// not implement it has no staging. Its methods are called for one volume at a time.
type DeviceMountableVolumePlugin interface {
	Plugin
	// VolumeID names the volume as its driver knows it. It is stored before anything is mounted.
	VolumeID(pod *v1.Pod, s Spec) (VolumeID, error)
	// CanDeviceMount tells whether this volume is staged; false goes straight to SetUp.
	CanDeviceMount(s Spec) bool
	// MountDevice waits until the volume is attached, if it has to be (WaitForAttach upstream), and
	// stages it at the global mount path a.Data.DeviceMountPath, whose parent
	// directory exists. It can be repeated after any failure. SetUp follows for each Pod.
	MountDevice(ctx context.Context, a DeviceMounterArgs) error
	// UnmountDevice undoes MountDevice, after the TearDown for the last Pod, with what was stored:
	// no Pod, no spec, maybe another kubelet. It can be repeated, and is a success when there is
	// nothing.
	UnmountDevice(ctx context.Context, d VolumeData) error
}

// NodeExpandableVolumePlugin is a Plugin whose volumes grow while Pods use them.
type NodeExpandableVolumePlugin interface {
	Plugin
	// NodeExpand grows a volume that is ready, if its PersistentVolume has more than its claim's
	// status says, and returns when to look again; zero is never.
	NodeExpand(ctx context.Context, a MounterArgs, m Mounted) (again time.Time, err error)
}

// Part is a part of what makes a volume ready, of which upstream speaks by a name of its own.
type Part string

// Parts.
const (
	WaitForAttach Part = "WaitForAttach"
	MountDevice   Part = "MountDevice"
	// MountOptionSupport is asked before anything is mounted.
	MountOptionSupport Part = "MountOptionSupport"
	MountForPod        Part = "SetUp"
	// EvalHostSymlinks and MapBlockVolume follow SetUp for raw volumes.
	EvalHostSymlinks Part = "EvalHostSymlinks"
	MapBlockVolume   Part = "MapBlockVolume"
	Expanding        Part = "expanding" // while it is mounted
	ExpandInUse      Part = "NodeExpandVolume"
)

// MountOptions are those of a PersistentVolume: its annotation's, or else its field's.
func MountOptions(pv *v1.PersistentVolume) []string {
	if text, ok := pv.Annotations[v1.MountOptionAnnotation]; ok {
		return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
	}
	return pv.Spec.MountOptions
}

// PartError is the failure of a part.
type PartError struct {
	Part Part
	Err  error
}

func (e PartError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e PartError) Unwrap() error { return e.Err }

// AttachLimitExceeded is why a volume is not attached in time: the node can have no more.
type AttachLimitExceeded struct{ Err error }

func (e AttachLimitExceeded) Error() string { return e.Err.Error() }

// VolumeID is a volume as its driver knows it: volumes of equal VolumeID are one.
type VolumeID struct {
	DriverName   string // without "/"; empty is the plugin's Name
	VolumeHandle string // any text that is unique within the driver
}

// DeviceMounterArgs is what a DeviceMountableVolumePlugin needs to know to stage a volume.
type DeviceMounterArgs struct {
	Spec         Spec
	Data         VolumeData
	MountOptions []string // as in MounterArgs
	FSGroup      *int64   // of the Pod that comes first
	Event        func(why, message string)
	Attempted    func(path string) // as in MounterArgs, before a driver stages the volume
	Began        func(operation string) (end func(error))
}

// VolumeData is what the kubelet stores of a volume (vol_data.json, as upstream's CSI plugin)
// before it mounts it: all there is to take it away by when the Pod is gone and the kubelet is
// another. One is stored for each volume of a Pod, one for each volume that is staged.
type VolumeData struct {
	PluginName   string `json:"pluginName"`
	VolumeName   string `json:"volumeName,omitempty"` // as in the Pod's spec.volumes; none of a staged volume
	SpecVolID    string `json:"specVolID"`            // Spec.Name: the PersistentVolume's name, else VolumeName
	DriverName   string `json:"driverName,omitempty"`
	Block        bool   `json:"block,omitempty"` // volumeMode Block
	VolumeHandle string `json:"volumeHandle,omitempty"`
	// DeviceMountPath is the global mount path,
	// <root>/plugins/kubernetes.io/<plugin>/<driver>/<hash of the handle>/globalmount, of a raw
	// volume <root>/plugins/kubernetes.io/<plugin>/volumeDevices/staging/<SpecVolID>; empty when
	// the volume is not staged.
	DeviceMountPath string `json:"deviceMountPath,omitempty"`
	// MountedInBoot is the boot of the node in which MountDevice succeeded; only of a staged
	// volume.
	MountedInBoot string `json:"mountedInBoot,omitempty"`
}
