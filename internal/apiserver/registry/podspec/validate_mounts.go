package podspec

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func (j *validator) mounts(c *v1.Container, at *field.Path) {
	paths, devices, devicePaths := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, d := range c.VolumeDevices {
		devices.Insert(d.Name)
		devicePaths.Insert(d.DevicePath)
	}
	for i := range c.VolumeMounts {
		m, one := &c.VolumeMounts[i], at.Index(i)
		if m.Name == "" {
			j.Required(one.Child("name"), "")
		}
		if _, ok := j.vols[m.Name]; !ok {
			j.Add(field.NotFound(one.Child("name"), m.Name))
		}
		if m.MountPath == "" {
			j.Required(one.Child("mountPath"), "")
		}
		if paths.Has(m.MountPath) {
			j.Invalid(one.Child("mountPath"), m.MountPath, "must be unique")
		}
		paths.Insert(m.MountPath)
		if devices.Has(m.Name) {
			j.Invalid(one.Child("name"), m.Name, "must not already exist in volumeDevices")
		}
		if devicePaths.Has(m.MountPath) {
			j.Invalid(one.Child("mountPath"), m.MountPath, "must not already exist as a path in volumeDevices")
		}
		if m.SubPath != "" {
			j.localDescendingPath(m.SubPath, at.Child("subPath"))
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				j.Invalid(one.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")
			}
			j.localDescendingPath(m.SubPathExpr, at.Child("subPathExpr"))
		}
		j.propagation(m, c, at.Child("mountPropagation"))
		j.recursiveReadOnly(m, at.Child("recursiveReadOnly"))
	}
}

func (j *validator) propagation(m *v1.VolumeMount, c *v1.Container, at *field.Path) {
	if m.MountPropagation == nil {
		return
	}
	typed.Supported(&j.Errors, at, *m.MountPropagation, v1.MountPropagationBidirectional,
		v1.MountPropagationHostToContainer, v1.MountPropagationNone)
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if *m.MountPropagation == v1.MountPropagationBidirectional && !privileged {
		j.Forbidden(at, "Bidirectional mount propagation is available only to privileged containers")
	}
}

func (j *validator) recursiveReadOnly(m *v1.VolumeMount, at *field.Path) {
	if m.RecursiveReadOnly == nil {
		return
	}
	switch *m.RecursiveReadOnly {
	case v1.RecursiveReadOnlyDisabled:
	case v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			j.Forbidden(at, "may only be specified when readOnly is true")
		}
		if m.MountPropagation != nil && *m.MountPropagation != v1.MountPropagationNone {
			j.Forbidden(at, "may only be specified when mountPropagation is None or not specified")
		}
	default:
		typed.Supported(&j.Errors, at, *m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled,
			v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible)
	}
}

func (j *validator) devices(c *v1.Container, at *field.Path) {
	names, paths, mounts, mountPaths := sets.New[string](), sets.New[string](), sets.New[string](), sets.New[string]()
	for _, m := range c.VolumeMounts {
		mounts.Insert(m.Name)
		mountPaths.Insert(m.MountPath)
	}
	for i := range c.VolumeDevices {
		d, one := &c.VolumeDevices[i], at.Index(i)
		v, known := j.vols[d.Name]
		if d.Name == "" {
			j.Required(one.Child("name"), "")
		}
		if names.Has(d.Name) {
			j.Invalid(one.Child("name"), d.Name, "must be unique")
		}
		if known && v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			j.Invalid(one.Child("name"), d.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
		}
		if !known {
			j.Add(field.NotFound(one.Child("name"), d.Name))
		}
		if d.DevicePath == "" {
			j.Required(one.Child("devicePath"), "")
		}
		if paths.Has(d.DevicePath) {
			j.Invalid(one.Child("devicePath"), d.DevicePath, "must be unique")
		}
		if d.DevicePath != "" && hasBacksteps(d.DevicePath) {
			j.Invalid(one.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')")
		} else {
			paths.Insert(d.DevicePath)
		}
		if mounts.Has(d.Name) {
			j.Invalid(one.Child("name"), d.Name, "must not already exist in volumeMounts")
		}
		if mountPaths.Has(d.DevicePath) {
			j.Invalid(one.Child("devicePath"), d.DevicePath, "must not already exist as a path in volumeMounts")
		}
		if d.Name != "" {
			names.Insert(d.Name)
		}
	}
}

// localDescendingPath checks for a relative path without "..".
func (j *validator) localDescendingPath(p string, at *field.Path) {
	if path.IsAbs(p) {
		j.Invalid(at, p, "must be a relative path")
	}
	j.pathNoBacksteps(p, at)
}

func (j *validator) pathNoBacksteps(p string, at *field.Path) {
	if hasBacksteps(p) {
		j.Invalid(at, p, "must not contain '..'")
	}
}

func hasBacksteps(p string) bool {
	for _, part := range strings.Split(strings.ReplaceAll(p, `\`, "/"), "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// localNonReservedPath is localDescendingPath and rejects a leading "..", which the atomic writer
// of volumes reserves.
func (j *validator) localNonReservedPath(p string, at *field.Path) {
	j.localDescendingPath(p, at)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		j.Invalid(at, p, "must not start with '..'")
	}
}
