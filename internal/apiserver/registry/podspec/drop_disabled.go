package podspec

import v1 "k8s.io/api/core/v1"

// DropDisabledPod removes fields whose feature gate is off (v1.37's alpha fields), unless the
// stored Pod uses them; old is nil for a create.
func DropDisabledPod(p, old *v1.Pod) {
	var previous *v1.PodSpec
	if old != nil {
		previous = &old.Spec
	}
	DropDisabled(&p.Spec, previous)
}

// DropDisabledTemplate is DropDisabledPod for a Pod template.
func DropDisabledTemplate(t, old *v1.PodTemplateSpec) {
	if t == nil {
		return
	}
	var previous *v1.PodSpec
	if old != nil {
		previous = &old.Spec
	}
	DropDisabled(&t.Spec, previous)
}

// gatedField is a field behind a gate that is off: whether a spec uses it, and its removal.
type gatedField struct {
	used func(*v1.PodSpec) bool
	drop func(*v1.PodSpec)
}

// newGatedField makes a gatedField from a function that visits all places of the field in a spec
// and calls f with whether it is set there and how to clear it.
func newGatedField(visit func(s *v1.PodSpec, f func(set bool, remove func()))) gatedField {
	return gatedField{
		used: func(s *v1.PodSpec) bool {
			any := false
			visit(s, func(set bool, _ func()) { any = any || set })
			return any
		},
		drop: func(s *v1.PodSpec) {
			visit(s, func(set bool, remove func()) {
				if set {
					remove()
				}
			})
		},
	}
}

// DropDisabled clears the fields of a spec whose gate is off by default in v1.37, except those that
// previous, the stored spec or nil, uses.
func DropDisabled(s, previous *v1.PodSpec) {
	for _, g := range []gatedField{
		newGatedField(func(s *v1.PodSpec, f func(bool, func())) {
			f(s.SchedulingGroup != nil, func() { s.SchedulingGroup = nil })
		}),
		newGatedField(func(s *v1.PodSpec, f func(bool, func())) {
			f(len(s.EvictionResponders) > 0, func() { s.EvictionResponders = nil })
		}),
		newGatedField(bindOptions), newGatedField(stopSignals), newGatedField(probeProtocols),
		newGatedField(emptyDirModes), newGatedField(fileOwners),
	} {
		if previous == nil || !g.used(previous) {
			g.drop(s)
		}
	}
}

// visitAllContainers calls f for init, app and ephemeral containers; f may change them.
func visitAllContainers(s *v1.PodSpec, f func(*v1.Container)) {
	visitContainers(s, f)
	for i := range s.EphemeralContainers {
		f((*v1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func bindOptions(s *v1.PodSpec, f func(bool, func())) {
	visitAllContainers(s, func(c *v1.Container) {
		for i := range c.VolumeMounts {
			m := &c.VolumeMounts[i]
			f(len(m.BindMountOptions) > 0, func() { m.BindMountOptions = nil })
		}
	})
}

func stopSignals(s *v1.PodSpec, f func(bool, func())) {
	visitAllContainers(s, func(c *v1.Container) {
		f(c.Lifecycle != nil && c.Lifecycle.StopSignal != nil, func() {
			c.Lifecycle.StopSignal = nil
			if *c.Lifecycle == (v1.Lifecycle{}) {
				c.Lifecycle = nil
			}
		})
	})
}

func probeProtocols(s *v1.PodSpec, f func(bool, func())) {
	http := func(h *v1.HTTPGetAction) {
		f(h != nil && h.Protocol != nil, func() { h.Protocol = nil })
	}
	visitAllContainers(s, func(c *v1.Container) {
		for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil {
				http(p.HTTPGet)
				f(p.GRPC != nil && p.GRPC.Mode != nil, func() { p.GRPC.Mode = nil })
			}
		}
		if l := c.Lifecycle; l != nil {
			for _, h := range []*v1.LifecycleHandler{l.PostStart, l.PreStop} {
				if h != nil {
					http(h.HTTPGet)
				}
			}
		}
	})
}

func emptyDirModes(s *v1.PodSpec, f func(bool, func())) {
	for i := range s.Volumes {
		e := s.Volumes[i].EmptyDir
		f(e != nil && e.Mode != nil, func() { e.Mode = nil })
	}
}

// fileOwners visits the owners of files in volumes that the kubelet writes.
func fileOwners(s *v1.PodSpec, f func(bool, func())) {
	one := func(p **int64) { f(*p != nil, func() { *p = nil }) }
	keys := func(list []v1.KeyToPath) {
		for i := range list {
			one(&list[i].User)
		}
	}
	downward := func(list []v1.DownwardAPIVolumeFile) {
		for i := range list {
			one(&list[i].User)
		}
	}
	for i := range s.Volumes {
		switch v := &s.Volumes[i]; {
		case v.Secret != nil:
			one(&v.Secret.DefaultUser)
			keys(v.Secret.Items)
		case v.ConfigMap != nil:
			one(&v.ConfigMap.DefaultUser)
			keys(v.ConfigMap.Items)
		case v.DownwardAPI != nil:
			one(&v.DownwardAPI.DefaultUser)
			downward(v.DownwardAPI.Items)
		case v.Projected != nil:
			one(&v.Projected.DefaultUser)
			for k := range v.Projected.Sources {
				src := &v.Projected.Sources[k]
				if src.Secret != nil {
					keys(src.Secret.Items)
				}
				if src.ConfigMap != nil {
					keys(src.ConfigMap.Items)
				}
				if src.DownwardAPI != nil {
					downward(src.DownwardAPI.Items)
				}
				if src.ServiceAccountToken != nil {
					one(&src.ServiceAccountToken.User)
				}
			}
		}
	}
}
