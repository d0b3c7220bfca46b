package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// podMemoryLimit is the memory limit of all containers of a Pod together; 0: there is none.
func podMemoryLimit(p *corev1.Pod) uint64 {
	if p == nil || p.Spec.Resources == nil {
		return 0
	}
	q, ok := p.Spec.Resources.Limits[corev1.ResourceMemory]
	if !ok {
		return 0
	}
	return uint64(q.Value())
}

// memoryVolumes are the volumes in memory that a container mounts, each with where.
func memoryVolumes(in In, c container) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	if in.Pod == nil {
		return nil
	}
	for _, v := range in.Pod.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
			continue
		}
		for _, m := range c.spec.VolumeMounts {
			if m.Name == v.Name && !m.ReadOnly {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// memoryVolumesText says, after a limit, that what a container writes into volumes in memory counts
// as its memory; empty where it mounts none.
func memoryVolumesText(in In, c container) string {
	var parts []string
	for _, m := range memoryVolumes(in, c) {
		parts = append(parts, fmt.Sprintf("volume %s at %s", m.Name, m.MountPath))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("; what it writes into %s (emptyDir of medium Memory) counts too", joinList(parts))
}

// oomAtStartWords are those by which a runtime says that a container had no memory left to begin.
const oomAtStartWords = "oom-killed"

// oomAtStart describes a container whose program could not begin, as its memory limit was used up
// before: files of volumes in memory stay from one run to the next.
func oomAtStart(in In, c container) string {
	limit := "its memory limit"
	if q, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
		limit += " of " + q.String()
	}
	s := fmt.Sprintf("%s cannot begin: %s is used up before its program starts, and the kernel killed what was to "+
		"start it (OOM)", c.title(), limit)
	if volumes := memoryVolumesText(in, c); volumes != "" {
		return s + volumes + ", and its files outlive a restart."
	}
	return s + "."
}

// memoryVolumeFixes move volumes in memory that a container writes to onto the node's disk.
func memoryVolumeFixes(in In, c container) []Fix {
	var out []Fix
	for _, m := range memoryVolumes(in, c) {
		out = append(out, editedPodFix(in, fmt.Sprintf("or keep volume %s on the node's disk instead of in memory",
			m.Name),
			func(s *corev1.PodSpec) {
				for i := range s.Volumes {
					if s.Volumes[i].Name == m.Name {
						s.Volumes[i].EmptyDir.Medium = corev1.StorageMediumDefault
					}
				}
			}))
	}
	return out
}

// limitOrigin names, after a limit, the LimitRange that gave it to a container whose manifest
// states none; empty where it is the manifest's own, or that is not known.
func limitOrigin(in In, c container) string {
	if in.Objects == nil || memoryLimit(c.spec) == 0 {
		return ""
	}
	r, ok := in.Objects.DefaultLimit(in.Pod, c.spec.Name, corev1.ResourceMemory)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", which the Pod's manifest does not state: it is the default of LimitRange %s",
		r)
}
