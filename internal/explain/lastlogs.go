package explain

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// ContainersToRead returns the containers whose last log lines may say what is wrong: those that
// exited with another code than 0, true if that was the previous run, init containers that run, and
// containers that run and that a probe does not find ready.
func ContainersToRead(p *corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, c := range containers(p) {
		switch {
		case c.status == nil:
		case c.init && c.status.State.Running != nil && !pod.IsSidecar(c.spec):
			out[c.spec.Name] = false
		case c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode != 0:
			out[c.spec.Name] = false
		case c.status.State.Terminated == nil && c.status.LastTerminationState.Terminated != nil &&
			c.status.LastTerminationState.Terminated.ExitCode != 0:
			out[c.spec.Name] = true
		case notReadyYet(c):
			out[c.spec.Name] = false
		}
	}
	return out
}

// notReadyYet reports whether a container runs and waits for a probe.
func notReadyYet(c container) bool {
	_, p := pendingProbe(c)
	return p != nil && c.status.State.Running != nil && !c.status.Ready
}

// ownWords adds to an answer about a container that runs and is not ready what it wrote last: its
// words, and what of its Pod's spec they are about.
func ownWords(a *Answer, in In, c container) {
	if !notReadyYet(c) || in.LastLogs[c.spec.Name] == "" {
		return
	}
	saysNow(a, in, c)
	if c.status.LastTerminationState.Terminated != nil {
		return // they are of the run before
	}
	if r, ok := deniedBy(in, c, pathOf(in.Pod, c), in.LastLogs[c.spec.Name]); ok {
		a.Cause += " " + r.text
		a.Fixes = append(r.fixes, a.Fixes...)
	}
}

// saysNow adds the last log lines of a container that runs.
func saysNow(a *Answer, in In, c container) {
	for line := range strings.Lines(strings.TrimSpace(in.LastLogs[c.spec.Name])) {
		a.Facts = append(a.Facts, saysPrefix+strings.TrimSpace(line))
	}
}

// causeInLogs adds what the last log lines of a container that ended tell: what it lacks, what its
// Pod's spec forbids it, or which Service did not answer.
func causeInLogs(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) {
	for _, f := range changedFindings(in, c, t) {
		a.Facts = append(a.Facts, strings.TrimSuffix(f.Message, "."))
	}
	if lastLogs(a, in, c) || forbiddenBySpec(a, in, c, t) {
		return
	}
	before := a.Cause
	if awaitedService(a, in, c); a.Cause == before {
		absentFile(a, in, c, t)
	}
}

// execPattern matches lines about a program that could not be run.
var execPattern = regexp.MustCompile(`(?i)\bexec[a-z]*\b`)

// absentFile names the file that the last log lines of a container miss, where no volume of the
// Pod could hold it.
func absentFile(a *Answer, in In, c container, t *corev1.ContainerStateTerminated) {
	words := lastOutput(in, c, t)
	line := words[strings.LastIndex(words, "\n")+1:]
	low := strings.ToLower(line)
	file := fileIn(line)
	if !strings.Contains(low, "no such file") && !strings.Contains(low, "enoent") || file == "" {
		return
	}
	if _, mounted := mountOf(c, file); mounted {
		return
	}
	if execPattern.MatchString(line) {
		r := notRun(c, pathOf(in.Pod, c), file)
		a.Cause += " " + r.text
		a.Fixes = append(r.fixes, a.Fixes...)
		return
	}
	a.Cause += fmt.Sprintf(" It misses %s: no volume is mounted there, and the image has no such file.", file)
	a.Fixes = append(textFixes(fmt.Sprintf("mount a volume that has it at %s, build it into the image, or let the "+
		"program look elsewhere", path.Dir(file))), a.Fixes...)
}

// lastLogs adds a container's last log lines, and what can be derived from them; true when that
// says why it failed.
func lastLogs(a *Answer, in In, c container) bool {
	failureText := strings.TrimSpace(in.LastLogs[c.spec.Name])
	if failureText == "" {
		return false
	}
	for _, line := range strings.Split(failureText, "\n") {
		a.Facts = append(a.Facts, saidPrefix+line)
	}
	return nameUnresolved(a, in, c, failureText) || readOnlyFile(a, in, c, failureText)
}

// readOnlyPattern matches log lines about a file on a read-only file system; the group is the file.
var readOnlyPattern = regexp.MustCompile(`(/[^\s:'"]+)['"]?: Read-only file system`)

// readOnlyFile explains why a file could not be written: the container's root file system is
// read-only, or its volume.
func readOnlyFile(a *Answer, in In, c container, failureText string) bool {
	m := readOnlyPattern.FindStringSubmatch(failureText)
	if m == nil {
		return false
	}
	file := m[1]
	dir := path.Dir(file)
	if v, ok := mountOf(c, file); ok && isAPIVolume(in.Pod, v.Name) {
		a.Cause += fmt.Sprintf(" It cannot write %s: volume %s at %s shows what the API server keeps, and is "+
			"read-only to every container.", file, v.Name, v.MountPath)
		a.Fixes = append(textFixes("write elsewhere, or copy what is needed from "+v.MountPath+" to an emptyDir first"),
			a.Fixes...)
		return true
	} else if ok && v.ReadOnly {
		a.Cause += fmt.Sprintf(" It cannot write %s: volume %s is mounted read-only at %s.", file, v.Name, v.MountPath)
		a.Fixes = append(
			[]Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("mount volume %s so that it may be written", v.Name),
				func(x *corev1.Container) {
					for i := range x.VolumeMounts {
						if x.VolumeMounts[i].MountPath == v.MountPath {
							x.VolumeMounts[i].ReadOnly = false
						}
					}
				})}, a.Fixes...)
		return true
	}
	s := c.spec.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		return false
	}
	a.Cause += fmt.Sprintf(" It cannot write %s: readOnlyRootFilesystem is set, so only volumes can be written.", file)
	fixes := []Fix{editedContainer(in, c.spec.Name,
		"or allow writing to the image's own files: what breaks in can then change them too",
		func(x *corev1.Container) { x.SecurityContext.ReadOnlyRootFilesystem = nil })}
	fixes = append(scratchFix(in, c, dir), fixes...)
	a.Fixes = append(fixes, a.Fixes...)
	return true
}

// scratchFix gives a container an empty volume at a directory that it writes to.
func scratchFix(in In, c container, dir string) []Fix {
	if dir == "/" || dir == "." {
		return nil
	}
	name := "scratch-" + strings.Trim(strings.NewReplacer("/", "-", ".", "-", "_",
		"-").Replace(strings.ToLower(dir)), "-")
	return []Fix{editedPodFix(in, fmt.Sprintf("give it an empty volume at %s (what the image has there is then hidden)",
		dir), func(x *corev1.PodSpec) {
		x.Volumes = append(x.Volumes, corev1.Volume{Name: name,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		for _, list := range [][]corev1.Container{x.InitContainers, x.Containers} {
			for i := range list {
				if list[i].Name == c.spec.Name {
					list[i].VolumeMounts = append(list[i].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: dir})
				}
			}
		}
	})}
}

// mountOf returns the mount that a file is on: the deepest of those that contain it.
func mountOf(c container, file string) (on corev1.VolumeMount, ok bool) {
	for _, v := range c.spec.VolumeMounts {
		at := strings.TrimSuffix(v.MountPath, "/")
		if (file == at || strings.HasPrefix(file, at+"/")) && (!ok || len(at) > len(on.MountPath)) {
			on, ok = v, true
		}
	}
	return on, ok
}

// isAPIVolume reports whether a volume is read-only because it has API objects.
func isAPIVolume(p *corev1.Pod, volume string) bool {
	for _, v := range p.Spec.Volumes {
		if v.Name == volume {
			return v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil
		}
	}
	return false
}
