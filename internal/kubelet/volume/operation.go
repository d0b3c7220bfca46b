package volume

import "time"

// Names of operations, as upstream's operation executor has them.
const (
	OperationMount              = "volume_mount"
	OperationUnmount            = "volume_unmount"
	OperationUnmountDevice      = "unmount_device"
	OperationMap                = "map_volume"
	OperationUnmap              = "unmap_volume"
	OperationUnmapDevice        = "unmap_device"
	OperationVerifyAttached     = "verify_controller_attached_volume"
	OperationResize             = "volume_fs_resize"
	OperationApplyAccessControl = "volume_apply_access_control"
)

// Operation is one that was done to a volume, with success or without.
type Operation struct {
	Plugin   string // of the type, as Plugin.Name says
	Driver   string // of a CSI volume
	Name     string
	Migrated bool // of a volume that is Spec.Migrated
	Err      error
	Took     time.Duration
	// Overall is the time since the Pod first wanted the volume, of a mount that succeeded; else 0.
	Overall time.Duration
}

// Begin tells a.Began of a part of setting the volume up; what it returns has to be told how the
// part ended.
func (a MounterArgs) Begin(operation string) (end func(error)) { return begin(a.Began, operation) }

// Begin is as that of MounterArgs.
func (a DeviceMounterArgs) Begin(operation string) (end func(error)) {
	return begin(a.Began, operation)
}

func begin(began func(string) func(error), operation string) func(error) {
	if began == nil {
		return func(error) {}
	}
	return began(operation)
}
