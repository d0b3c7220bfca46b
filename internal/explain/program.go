package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// programDirectories are where an image's shells and tools are: a name without a directory is
// looked for there too.
var programDirectories = []string{"/bin", "/usr/bin"}

// hidingMount is the mount below which a program should be that is not there: what the image has
// there cannot be seen. A volume that shows the program hides nothing that is missed.
func hidingMount(in In, c container, program string) (m corev1.VolumeMount, index int, ok bool) {
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
	if shownFile(in, c, program).there {
		return m, 0, false
	}
	m, index, ok = mountIndex(c, program)
	return m, index, ok && m.MountPath != program
}

// refusedStart is what a runtime's words about a program that it could not start come from: what a
// volume shows as that program, or a volume that hides the image's.
func refusedStart(in In, c container, words string) (restriction, bool) {
	if r, ok := mountedOver(in, c, words); ok {
		return r, true
	}
	m := programPattern.FindStringSubmatch(words)
	if m == nil || in.Pod == nil {
		return restriction{}, false
	}
	at := pathOf(in.Pod, c)
	if r, ok := volumeProgram(in, c, m[1], words); ok {
		return r, true
	}
	v, i, ok := hidingMount(in, c, m[1])
	if !ok {
		return restriction{}, false
	}
	r := restriction{field: fmt.Sprintf("%s.volumeMounts[%d].mountPath", at, i), value: v.MountPath,
		want: "/mnt/" + v.Name}
	if strings.Contains(strings.ToLower(words), "permission denied") { // it is there
		r.want = ""
		r.text = fmt.Sprintf("%s is of volume %s, which is mounted at %s: that file has no x bit, its user may not "+
			"reach it, or the volume's file system is mounted without the right to run programs "+
			"(noexec).", m[1], v.Name,
			v.MountPath)
		r.fixes = []Fix{{Description: fmt.Sprintf("give the file in volume %s mode 0755", v.Name)}, byShell(in, c,
			m[1])}
		return r, true
	}
	r.text = fmt.Sprintf("Volume %s is mounted at %s and hides what the image has there: %s is looked for in the "+
		"volume.", v.Name, v.MountPath, m[1])
	r.fixes = []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("mount volume %s elsewhere than at %s, for instance "+
		"at /mnt/%s", v.Name, v.MountPath, v.Name), func(x *corev1.Container) {
		for i := range x.VolumeMounts {
			if x.VolumeMounts[i].MountPath == v.MountPath {
				x.VolumeMounts[i].MountPath = "/mnt/" + v.Name
			}
		}
	}), {Description: fmt.Sprintf("or put %s into the volume", m[1])}}
	return r, true
}

// startRefusedText is a sentence, with a space before it, about what refusedStart finds; empty
// where that is nothing.
func startRefusedText(in In, c container, words string) string {
	if dir := workingDirOf(c, words); dir != "" {
		return workingDirText(dir, words)
	}
	if m := programPattern.FindStringSubmatch(words); m != nil {
		if n := len(takenApart(c.spec.Command, m[1])); n > 0 {
			return fmt.Sprintf(" Its command is one word, %q, blanks included, and no program has that name: %d words "+
				"were meant, each an item of the list.", m[1], n)
		}
	}
	if r, ok := refusedStart(in, c, words); ok {
		return " " + r.text
	}
	return ""
}

// usualPrograms are names of programs that many images have.
var usualPrograms = []string{"awk", "bash", "busybox", "cat", "cp", "curl", "date", "dd", "echo", "env", "false",
	"find", "grep", "gunicorn", "httpd", "java", "ls", "mkdir", "nginx", "node", "npm", "perl", "php", "printenv",
	"python", "python3", "redis-server", "ruby", "sed", "sleep", "tail", "tar", "tee", "touch", "true", "wget", "yes"}

// nearProgram has another program in the place of one that is not in the image: a usual one, or one
// of the Pod's other containers, of nearly its name.
func nearProgram(in In, c container, program string) []Fix {
	have := slices.Clone(usualPrograms)
	for _, x := range containers(in.Pod) {
		if words := slices.Concat(x.spec.Command, x.spec.Args); x.spec.Name != c.spec.Name && len(words) > 0 &&
			!slices.Contains(have, words[0]) {
			have = append(have, words[0])
		}
	}
	near, how := finding.Near(program, have)
	if near == "" || slices.Contains(have, program) {
		return nil
	}
	return []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("run %s, if that was meant: %s", near, how),
		func(x *corev1.Container) {
			for _, list := range [][]string{x.Command, x.Args} {
				if len(list) > 0 && list[0] == program {
					list[0] = near
				}
			}
		})}
}

// programFixes are remedies for a program that the runtime could not start, from its words.
func programFixes(in In, c container, words string) []Fix {
	if r, ok := refusedStart(in, c, words); ok {
		return r.fixes
	}
	m := programPattern.FindStringSubmatch(words)
	if m == nil {
		return startFixes(in, c, words)
	}
	return append(append(oneWordFix(in, c, m[1]), nearProgram(in, c, m[1])...), Fix{Description: fmt.Sprintf(
		"correct the command: %s is not in the image %s, or cannot be executed", m[1], c.spec.Image)})
}
