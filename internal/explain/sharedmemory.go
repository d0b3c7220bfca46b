package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// sharedMemory is where every container has a small file system in memory: 64 MiB, which no field
// of a Pod changes.
const sharedMemory = "/dev/shm"

// sharedMemoryFull is a file that does not fit into what a container has at /dev/shm.
func sharedMemoryFull(in In, c container, at, file string) (restriction, bool) {
	if !strings.HasPrefix(file, sharedMemory+"/") {
		return restriction{}, false
	}
	name := "shared-memory"
	return restriction{field: at + ".volumeMounts", want: sharedMemory, text: fmt.Sprintf("%s is full: it has 64 MiB "+
		"where no volume is mounted there.", sharedMemory), fixes: []Fix{editedPodFix(in, fmt.Sprintf("mount a memory "+
		"volume (emptyDir) at %s: what is in it counts as the Pod's memory", sharedMemory), func(s *corev1.PodSpec) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}})
		for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				if list[i].Name == c.spec.Name {
					list[i].VolumeMounts = append(list[i].VolumeMounts,
						corev1.VolumeMount{Name: name, MountPath: sharedMemory})
				}
			}
		}
	})}}, true
}
