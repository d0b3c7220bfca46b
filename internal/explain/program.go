package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// programDirectories are where an image's shells and tools are: a name without a directory is
// looked for there too.
var programDirectories = []string{"/bin", "/usr/bin"}

// hidingMount is the mount below which a program should be that is not there: what the image has
// there cannot be seen.
func hidingMount(c container, program string) (m corev1.VolumeMount, index int, ok bool) {
	if !strings.Contains(program, "/") && !strings.Contains(program, " ") {
		for _, dir := range programDirectories {
			if m, index, ok = mountIndex(c, dir); ok {
				return m, index, true
			}
		}
		return m, 0, false
	}
	if !strings.HasPrefix(program, "/") {
		return m, 0, false
	}
	m, index, ok = mountIndex(c, program)
	return m, index, ok && m.MountPath != program
}

// hiddenText is a sentence, with a space before it, about such a mount; empty where there is none.
func hiddenText(c container, words string) string {
	m := programPattern.FindStringSubmatch(words)
	if m == nil {
		return ""
	}
	v, _, ok := hidingMount(c, m[1])
	if !ok {
		return ""
	}
	return fmt.Sprintf(" Volume %s is mounted at %s and hides what the image has there: %s is looked for in the "+
		"volume.", v.Name, v.MountPath, m[1])
}

// programFixes are remedies for a program that the runtime could not start, from its words.
func programFixes(in In, c container, words string) []Fix {
	m := programPattern.FindStringSubmatch(words)
	if m == nil {
		return startFixes(in, c, words)
	}
	if v, _, ok := hidingMount(c, m[1]); ok {
		say := fmt.Sprintf("mount volume %s elsewhere than at %s, for instance at /mnt/%s", v.Name, v.MountPath, v.Name)
		return []Fix{editedContainer(in, c.spec.Name, say, func(x *corev1.Container) {
			for i := range x.VolumeMounts {
				if x.VolumeMounts[i].MountPath == v.MountPath {
					x.VolumeMounts[i].MountPath = "/mnt/" + v.Name
				}
			}
		}), {Description: fmt.Sprintf("or put %s into the volume", m[1])}}
	}
	return append(oneWordFix(in, c, m[1]), Fix{Description: fmt.Sprintf(
		"correct the command: %s is not in the image %s, or cannot be executed", m[1], c.spec.Image)})
}
