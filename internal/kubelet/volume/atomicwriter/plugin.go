package atomicwriter

import (
	"context"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

// Plugin is a type of volumes whose files are made from the API and follow it: configMap, secret
// and downwardAPI are each one, told apart by PluginOptions.
type Plugin struct {
	mounts  volume.Mounter
	options PluginOptions
}

// PluginOptions is what one such type has of its own.
type PluginOptions struct {
	Name, Dir string // as in volume.Plugin
	Memory    bool   // the files never reach a disk
	// Read makes the files of the volume.
	Read func(ctx context.Context, a volume.MounterArgs) (volume.Payload, error)
}

// NewPlugin returns the type.
func NewPlugin(m volume.Mounter, o PluginOptions) Plugin { return Plugin{m, o} }

// Name is the field of v1.VolumeSource.
func (t Plugin) Name() string { return t.options.Name }

// Dir is the plugin's directory.
func (t Plugin) Dir() string { return t.options.Dir }

// RequiresRemount is true: the files follow what they are made from.
func (Plugin) RequiresRemount(volume.Spec) bool { return true }

// SetUp writes the files.
func (t Plugin) SetUp(ctx context.Context, a volume.MounterArgs) (volume.Mounted, error) {
	p, err := t.options.Read(ctx, a)
	if err != nil {
		return volume.Mounted{}, err
	}
	if err := WriteVolume(t.mounts, a, t.options.Memory, p); err != nil {
		return volume.Mounted{}, err
	}
	return volume.Mounted{Path: a.Dir, ReadOnly: true, Size: volume.SizeOfFiles}, nil
}

// TearDown removes the directory.
func (t Plugin) TearDown(_ context.Context, a volume.UnmounterArgs) error {
	return volumedir.Remove(t.mounts, a.Dir)
}
