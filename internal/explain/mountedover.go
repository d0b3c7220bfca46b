package explain

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mountedOverWords are a runtime's words about a file that cannot be mounted over a directory, or a
// directory over a file; the group is the place in the container.
var mountedOverWords = regexp.MustCompile(`error mounting "[^"]+" to rootfs at "([^"]+)".*: (not a directory|` +
	`is a directory|Are you trying to mount a directory onto a file)`)

// mountedOver is a mount of a container whose volume, or part of one, is a file where the image has
// a directory, or the other way round.
func mountedOver(in In, c container, words string) (restriction, bool) {
	m := mountedOverWords.FindStringSubmatch(words)
	if m == nil || in.Pod == nil {
		return restriction{}, false
	}
	for i, v := range c.spec.VolumeMounts {
		if path.Clean(v.MountPath) != path.Clean(m[1]) {
			continue
		}
		r := restriction{field: fmt.Sprintf("%s.volumeMounts[%d].mountPath", pathOf(in.Pod, c), i), value: v.MountPath}
		if v.SubPath == "" && v.SubPathExpr == "" && !fileVolume(in.Pod, v.Name) {
			r.directoryOver(in, c, i)
			return r, true
		}
		name := path.Base(v.SubPath)
		if v.SubPath == "" {
			name = v.Name
		}
		r.want = path.Join(v.MountPath, name)
		r.text = fmt.Sprintf("Volume %s gives a file there (subPath %s), and %s is a directory of the image: a "+
			"file is mounted at the path of a file.", v.Name, v.SubPath, v.MountPath)
		to := v
		to.MountPath = r.want
		r.fixes = []Fix{withMount(in, c, i, to)}
		return r, true
	}
	return restriction{}, false
}

// directoryOver tells of a volume that is mounted over a file of the image.
func (r *restriction) directoryOver(in In, c container, i int) {
	v := c.spec.VolumeMounts[i]
	name, dir := path.Base(v.MountPath), path.Dir(v.MountPath)
	r.text = fmt.Sprintf("Volume %s is a directory, and %s is a file of the image: only a file of the volume "+
		"(subPath) can be mounted there.", v.Name, v.MountPath)
	to := v
	to.SubPath = name
	r.fixes = []Fix{withMount(in, c, i, to),
		{Description: fmt.Sprintf("or mount the volume at a directory, %s for instance, which hides what the image "+
			"has in it", dir)}}
}

// fileVolume reports whether a volume is a file of its node.
func fileVolume(p *corev1.Pod, name string) bool {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Name == name && v.HostPath != nil && v.HostPath.Type != nil {
			return strings.HasPrefix(string(*v.HostPath.Type), "File")
		}
	}
	return false
}

// withMount has another mount in the place of one of a container.
func withMount(in In, c container, i int, to corev1.VolumeMount) Fix {
	say := "mount volume " + to.Name + " at " + to.MountPath
	if to.SubPath != "" {
		say = fmt.Sprintf("mount the file %s of volume %s at %s (subPath)", to.SubPath, to.Name, to.MountPath)
	}
	return editedContainer(in, c.spec.Name, say, func(x *corev1.Container) {
		if i < len(x.VolumeMounts) {
			x.VolumeMounts[i] = to
		}
	})
}
