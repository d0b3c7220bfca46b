package volume

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	podutil "github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/csimigration"
)

// PluginRow is a Plugin with what it serves: one row per type of volume.
type PluginRow struct {
	Plugin Plugin
	// Inline and PersistentVolume tell in which of v1.VolumeSource and v1.PersistentVolumeSource
	// the plugin serves the field of its name.
	Inline, PersistentVolume bool
	MountOptions             bool // spec.mountOptions of PersistentVolumes are handed to it
	FSGroup                  bool // it gives the volume to the Pod's fsGroup
}

// PluginMgr is the table of the types of volumes that a node serves, upstream's VolumePluginMgr.
type PluginMgr []PluginRow

// FindPluginBySpec is the row that serves the Pod's volume. The error is an UnsupportedType, for a
// claim with the names of claim and volume before it.
func (m PluginMgr) FindPluginBySpec(pod *v1.Pod, s Spec) (PluginRow, error) {
	if s.PersistentVolume == nil {
		return m.find(Kind(s.Volume), func(r *PluginRow) bool { return r.Inline })
	}
	row, err := m.find(sourceField(s.PersistentVolume.Spec.PersistentVolumeSource),
		func(r *PluginRow) bool { return r.PersistentVolume })
	if err != nil {
		err = fmt.Errorf("volume %s of claim %s/%s: %w", s.PersistentVolume.Name, pod.Namespace,
			ClaimName(pod, s.Volume), err)
	}
	return row, err
}

func (m PluginMgr) find(field string, serves func(*PluginRow) bool) (PluginRow, error) {
	for i := range m {
		if m[i].Plugin.Name() == field && serves(&m[i]) {
			return m[i], nil
		}
	}
	return PluginRow{}, UnsupportedType{field, m.alternative(field)}
}

// FindPluginByDir is the plugin that keeps its volumes in a directory of this name, nil when there
// is none.
func (m PluginMgr) FindPluginByDir(dir string) Plugin {
	for i := range m {
		if dir != "" && m[i].Plugin.Dir() == dir {
			return m[i].Plugin
		}
	}
	return nil
}

// FindPluginByName is the plugin of that name, nil when there is none.
func (m PluginMgr) FindPluginByName(name string) Plugin {
	for i := range m {
		if m[i].Plugin.Name() == name {
			return m[i].Plugin
		}
	}
	return nil
}

// MayBe tells whether a volume found on disk may be the Pod's volume of that name. What is behind a
// claim, or an in-tree plugin that a CSI driver took over, is not looked up for that: any type that
// serves PersistentVolumes may be.
func (m PluginMgr) MayBe(v *v1.Volume, d DirOnDisk) bool {
	if v.Name != d.volumeName() {
		return false
	}
	for i := range m {
		switch r := &m[i]; {
		case r.Plugin.Dir() != d.Plugin:
		case r.PersistentVolume && (podutil.IsClaim(v) || csimigration.IsInline(v)),
			!podutil.IsClaim(v) && r.Inline && r.Plugin.Name() == Kind(v):
			return true
		}
	}
	return false
}

// UnsupportedType says that no type of this node serves the volume, and what to use instead.
type UnsupportedType struct{ Kind, Fix string }

// Error names the kind.
func (u UnsupportedType) Error() string {
	return fmt.Sprintf("volumes of type %s are not served by this node", u.Kind)
}

// alternative is what to use instead of a field of a source that no row serves.
func (m PluginMgr) alternative(field string) string {
	var types []string
	for i := range m {
		if m[i].PersistentVolume {
			types = append(types, m[i].Plugin.Name())
		}
	}
	served := strings.Join(types, ", ")
	if n := len(types); n > 1 {
		served = strings.Join(types[:n-1], ", ") + " or " + types[n-1]
	}
	switch field {
	case "iscsi", "fc":
		return "attach the disk to the node and offer it as a local PersistentVolume, or use an nfs volume"
	case "gitRepo":
		return "clone the repository in an init container into an emptyDir"
	case "csi":
		return "CSI drivers are not served by this node: use " + served
	}
	return "use a claim whose volume is of type " + served
}

// Unprocessed marks an error about a volume that could not even be understood: its claim is not
// there, or not bound.
type Unprocessed struct{ Err error }

// Error is the text of the error.
func (u Unprocessed) Error() string { return u.Err.Error() }

// Unwrap is the error.
func (u Unprocessed) Unwrap() error { return u.Err }
