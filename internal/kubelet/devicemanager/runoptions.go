package devicemanager

import (
	"maps"
	"slices"
	"strings"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// EnvVar is a variable of the environment.
type EnvVar struct{ Name, Value string }

// Mount is a directory or file of the node that a container gets.
type Mount struct {
	ContainerPath, HostPath string
	ReadOnly                bool
}

// DeviceNode is a device node that a container gets.
type DeviceNode struct{ ContainerPath, HostPath, Permissions string }

// RunOptions is what a container gets for its devices.
type RunOptions struct {
	Envs        []EnvVar // by name
	Mounts      []Mount
	Devices     []DeviceNode
	Annotations map[string]string
	CDIDevices  []string // names, as in vendor.com/class=name
}

// Conflict is a setting that two plugins give different values: the first resource's counts.
type Conflict struct{ What, Name, Kept, Dropped string }

// RunOptionsOf joins what the plugins of a container's resources answered, resource by resource in
// the order of their names.
func RunOptionsOf(resources map[string]Allocation) (RunOptions, []Conflict) {
	j := joiner{seen: map[[2]string]string{}}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		j.add(resources[name].Response)
	}
	slices.SortFunc(j.out.Envs, func(a, b EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return j.out, j.conflicts
}

// joiner keeps the first of each setting.
type joiner struct {
	out       RunOptions
	conflicts []Conflict
	seen      map[[2]string]string
}

// isNew tells whether a setting of that kind and name is the first.
func (j *joiner) isNew(what, name, value string) bool {
	old, had := j.seen[[2]string{what, name}]
	if had && old != value {
		j.conflicts = append(j.conflicts, Conflict{what, name, old, value})
	}
	if !had {
		j.seen[[2]string{what, name}] = value
	}
	return !had
}

func (j *joiner) add(r *pluginapi.ContainerAllocateResponse) {
	for _, name := range slices.Sorted(maps.Keys(r.GetEnvs())) {
		if v := r.GetEnvs()[name]; j.isNew("Environment variable", name, v) {
			j.out.Envs = append(j.out.Envs, EnvVar{name, v})
		}
	}
	for _, d := range r.GetDevices() {
		if j.isNew("Container device", d.GetContainerPath(), d.GetHostPath()) {
			j.out.Devices = append(j.out.Devices, DeviceNode{d.GetContainerPath(), d.GetHostPath(), d.GetPermissions()})
		}
	}
	for _, m := range r.GetMounts() {
		if j.isNew("Container mount", m.GetContainerPath(), m.GetHostPath()) {
			j.out.Mounts = append(j.out.Mounts, Mount{m.GetContainerPath(), m.GetHostPath(), m.GetReadOnly()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.GetAnnotations())) {
		if v := r.GetAnnotations()[name]; j.isNew("Annotation", name, v) {
			if j.out.Annotations == nil {
				j.out.Annotations = map[string]string{}
			}
			j.out.Annotations[name] = v
		}
	}
	for _, c := range r.GetCdiDevices() {
		if j.isNew("CDI device", c.GetName(), c.GetName()) {
			j.out.CDIDevices = append(j.out.CDIDevices, c.GetName())
		}
	}
}
