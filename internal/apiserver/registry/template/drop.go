package template

import v1 "k8s.io/api/core/v1"

// DropDisabledPod removes fields whose feature is off at this level (v1.37's alpha fields), unless the stored Pod has them already.
func DropDisabledPod(p, old *v1.Pod) {
	var was *v1.PodSpec
	if old != nil {
		was = &old.Spec
	}
	DropDisabled(&p.Spec, was)
}

// DropDisabledTemplate is DropDisabledPod for a template.
func DropDisabledTemplate(t, old *v1.PodTemplateSpec) {
	if t == nil {
		return
	}
	var was *v1.PodSpec
	if old != nil {
		was = &old.Spec
	}
	DropDisabled(&t.Spec, was)
}

// DropDisabled removes from a spec what v1.37 keeps behind a gate that is off by default. A field that the stored spec (was) uses stays.
func DropDisabled(s, was *v1.PodSpec) {
	if was == nil {
		was = &v1.PodSpec{}
	}
	if was.SchedulingGroup == nil {
		s.SchedulingGroup = nil
	}
	if len(was.EvictionResponders) == 0 {
		s.EvictionResponders = nil
	}
	keep := usesOf(was)
	for i := range s.Volumes {
		dropVolume(&s.Volumes[i], keep)
	}
	eachAny(s, func(c *v1.Container) {
		for i := range c.VolumeMounts {
			if !keep.bindOptions {
				c.VolumeMounts[i].BindMountOptions = nil
			}
		}
		if c.Lifecycle != nil && !keep.stopSignal {
			c.Lifecycle.StopSignal = nil
			if *c.Lifecycle == (v1.Lifecycle{}) {
				c.Lifecycle = nil
			}
		}
	})
}

// uses says which gated fields a spec has.
type uses struct{ bindOptions, stopSignal, emptyDirMode, fileUser, trustBundle, podCertificate bool }

func usesOf(s *v1.PodSpec) uses {
	var u uses
	eachAny(s, func(c *v1.Container) {
		for i := range c.VolumeMounts {
			u.bindOptions = u.bindOptions || len(c.VolumeMounts[i].BindMountOptions) > 0
		}
		u.stopSignal = u.stopSignal || c.Lifecycle != nil && c.Lifecycle.StopSignal != nil
	})
	for i := range s.Volumes {
		v := &s.Volumes[i]
		u.emptyDirMode = u.emptyDirMode || v.EmptyDir != nil && v.EmptyDir.Mode != nil
		if v.Projected == nil {
			continue
		}
		u.fileUser = u.fileUser || v.Projected.DefaultUser != nil
		for j := range v.Projected.Sources {
			u.trustBundle = u.trustBundle || v.Projected.Sources[j].ClusterTrustBundle != nil
			u.podCertificate = u.podCertificate || v.Projected.Sources[j].PodCertificate != nil
		}
	}
	return u
}

func dropVolume(v *v1.Volume, keep uses) {
	if v.EmptyDir != nil && !keep.emptyDirMode {
		v.EmptyDir.Mode = nil
	}
	if v.Projected == nil {
		return
	}
	if !keep.fileUser {
		v.Projected.DefaultUser = nil
	}
	for j := range v.Projected.Sources {
		if !keep.trustBundle {
			v.Projected.Sources[j].ClusterTrustBundle = nil
		}
		if !keep.podCertificate {
			v.Projected.Sources[j].PodCertificate = nil
		}
	}
}

// eachAny visits init, app and ephemeral containers; changes to pointers inside an ephemeral container stick.
func eachAny(s *v1.PodSpec, f func(*v1.Container)) {
	eachContainer(s, f)
	for i := range s.EphemeralContainers {
		f((*v1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
}
