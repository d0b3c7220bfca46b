package volume

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// DirOnDisk is a volume's directory found below a Pod's.
type DirOnDisk struct {
	Plugin string // kubernetes.io~configmap, …
	Name   string // of the directory
	// VolumeName is the name in the Pod's spec.volumes, where that is not the directory's: a
	// PersistentVolume that is staged has its own.
	VolumeName string
}

// volumeName is the name in the Pod's spec.volumes.
func (d DirOnDisk) volumeName() string { return cmp.Or(d.VolumeName, d.Name) }

// Verb is what a step does.
type Verb string

// Verbs.
const (
	TearDown Verb = "tear-down"
	SetUp    Verb = "set-up"
)

// Step is one thing to do.
type Step struct {
	Verb   Verb
	Dir    DirOnDisk  // of TearDown
	Name   string     // of the volume, as in the Pod's spec.volumes
	Volume *v1.Volume // of SetUp
}

// Plan lists what takes a Pod's volumes from what is on disk (the actual state) to what the Pod
// wants (the desired state): first away with what it wants no longer, so that a name is free before
// it is used anew, then every volume a container mounts, in the order of the spec. mayBe tells
// whether what is on disk may be the volume. A nil Pod wants nothing.
func Plan(pod *v1.Pod, onDisk []DirOnDisk, mayBe func(*v1.Volume, DirOnDisk) bool) []Step {
	var desired []*v1.Volume
	if pod != nil {
		desired = UsedVolumes(pod)
	}
	var steps []Step
	for _, d := range onDisk {
		if !slices.ContainsFunc(desired, func(v *v1.Volume) bool { return mayBe(v, d) }) {
			steps = append(steps, Step{Verb: TearDown, Dir: d, Name: d.volumeName()})
		}
	}
	for _, v := range desired {
		steps = append(steps, Step{Verb: SetUp, Name: v.Name, Volume: v})
	}
	return steps
}

// UsedVolumes lists the Pod's volumes that some container mounts, in the order of the spec. The
// others are not made at all.
func UsedVolumes(pod *v1.Pod) []*v1.Volume {
	names := map[string]bool{}
	add := func(mounts []v1.VolumeMount, devices []v1.VolumeDevice) {
		for i := range mounts {
			names[mounts[i].Name] = true
		}
		for i := range devices {
			names[devices[i].Name] = true
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].VolumeMounts, pod.Spec.InitContainers[i].VolumeDevices)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].VolumeMounts, pod.Spec.Containers[i].VolumeDevices)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	var used []*v1.Volume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; names[v.Name] {
			used = append(used, v)
		}
	}
	return used
}

// Uses tells how containers use a volume: as file system, as block device.
func Uses(pod *v1.Pod, name string) (mounts, devices bool) {
	see := func(m []v1.VolumeMount, d []v1.VolumeDevice) {
		mounts = mounts || slices.ContainsFunc(m, func(m v1.VolumeMount) bool { return m.Name == name })
		devices = devices || slices.ContainsFunc(d, func(d v1.VolumeDevice) bool { return d.Name == name })
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			see(list[i].VolumeMounts, list[i].VolumeDevices)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		see(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	return mounts, devices
}
