package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

func notStarted(p *corev1.Pod) bool {
	for _, c := range containers(p) {
		if c.status != nil && (c.status.State.Running != nil || c.status.State.Terminated != nil ||
			c.status.RestartCount > 0) {
			return false
		}
	}
	return true
}

func volumesWaiting(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) {
		return nil
	}
	w, at, ok := newest[journal.VolumeWaiting](in, nil)
	if ok {
		if _, done, came := newest[journal.VolumeReady](in,
			func(r journal.VolumeReady) bool { return r.Volume == w.Volume }); came && done.After(at) {
			ok = false
		}
	}
	if !ok {
		return nil
	}
	a := &Answer{State: "ContainerCreating", Since: at, Cause: fmt.Sprintf("Volume %s (%s) is not ready: %s.", w.Volume,
		volumeSource(in, w), strings.TrimSuffix(oneLine(w.Message), ".")),
		Next: "it is tried again with growing pauses, and at once when the missing object appears"}
	if behindClaim(a, in, w) || optionRefused(a, in, w) || seLinuxRefused(a, in, w) {
		return a
	}
	if m := objectPattern.FindStringSubmatch(w.Message); m != nil {
		objectMissing(a, in, objectKey{kind: kinds[m[1]], name: m[2]})
	}
	fix := w.Fix
	if fix == "" {
		fix = createHint(w.Message)
	}
	a.Fixes = append(a.Fixes, hostPathFixes(in, w.Volume)...)
	if devices := deviceFixes(in, a, w.Message); len(devices) > 0 {
		a.Fixes = append(a.Fixes, devices...)
		return a
	}
	a.Fixes = append(a.Fixes, textFixes(fix)...)
	return a
}

// otherMode matches the kubelet's words for a volume whose mode is not the one it is used in.
var otherMode = regexp.MustCompile(`volume (\S+) has volumeMode (Filesystem|Block), but is specified in ` +
	`(volumeDevices|` +
	`volumeMounts)`)

// deviceFixes explains a volume that is used as a block device and is a file system, or the other
// way round.
func deviceFixes(in In, a *Answer, words string) []Fix {
	m := otherMode.FindStringSubmatch(words)
	if m == nil {
		return nil
	}
	volume, mode, list := m[1], m[2], m[3]
	f := finding.Finding{Code: "VolumeModeDiffers", Stage: finding.StageVolume, Object: in.object(), Value: volume,
		Numbers: map[string]string{"volumeMode": mode}, Message: a.Cause}
	for _, c := range containers(in.Pod) {
		for i, d := range c.spec.VolumeDevices {
			if d.Name == volume && list == "volumeDevices" {
				f.Field = fmt.Sprintf("%s.volumeDevices[%d].name", pathOf(in.Pod, c), i)
			}
		}
		for i, d := range c.spec.VolumeMounts {
			if d.Name == volume && list == "volumeMounts" {
				f.Field = fmt.Sprintf("%s.volumeMounts[%d].name", pathOf(in.Pod, c), i)
			}
		}
	}
	other := map[string]string{"volumeDevices": "volumeMounts", "volumeMounts": "volumeDevices"}[list]
	fixes := []Fix{editedPodFix(in,
		fmt.Sprintf("use it as what it is: in %s instead of %s, with a path of your own for the "+
			"file", other, list), func(s *corev1.PodSpec) {
			for _, specs := range [][]corev1.Container{s.InitContainers, s.Containers} {
				for i := range specs {
					swapUse(&specs[i], volume, list == "volumeDevices")
				}
			}
		}), {Description: fmt.Sprintf("or make a claim with volumeMode %s", map[string]string{"Filesystem": "Block",
		"Block": "Filesystem"}[mode])}}
	f.Remedies = asRemedies(fixes)
	a.Findings = append(a.Findings, f)
	return fixes
}

// swapUse lets a container mount a volume that it used as a device, or the other way round.
func swapUse(c *corev1.Container, volume string, mount bool) {
	for _, d := range c.VolumeDevices {
		if mount && d.Name == volume {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: d.DevicePath})
		}
	}
	for _, m := range c.VolumeMounts {
		if !mount && m.Name == volume {
			c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: volume, DevicePath: m.MountPath})
		}
	}
	if mount {
		c.VolumeDevices = slices.DeleteFunc(c.VolumeDevices,
			func(d corev1.VolumeDevice) bool { return d.Name == volume })
	} else {
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	}
}

// hostPathFixes returns fixes that make the kubelet create what a hostPath volume needs.
func hostPathFixes(in In, volume string) []Fix {
	creates := map[corev1.HostPathType]corev1.HostPathType{corev1.HostPathDirectory: corev1.HostPathDirectoryOrCreate,
		corev1.HostPathFile: corev1.HostPathFileOrCreate}
	for _, v := range in.Pod.Spec.Volumes {
		if v.Name != volume || v.HostPath == nil || v.HostPath.Type == nil || creates[*v.HostPath.Type] == "" {
			continue
		}
		to := creates[*v.HostPath.Type]
		other := map[corev1.HostPathType]corev1.HostPathType{corev1.HostPathFile: corev1.HostPathDirectory,
			corev1.HostPathDirectory: corev1.HostPathFile}[*v.HostPath.Type]
		set := func(say string, to corev1.HostPathType) Fix {
			return editedPodFix(in, say, func(s *corev1.PodSpec) {
				for i := range s.Volumes {
					if s.Volumes[i].Name == volume {
						s.Volumes[i].HostPath.Type = &to
					}
				}
			})
		}
		return []Fix{set(fmt.Sprintf("let the kubelet make %s, empty, where it is missing: type %s instead of %s",
			v.HostPath.Path, to, *v.HostPath.Type), to),
			set(fmt.Sprintf("or, if it is there and something else: type %s instead of "+
				"%s", other, *v.HostPath.Type), other)}
	}
	return nil
}

// createHint returns what to create, from the text about a missing object.
func createHint(text string) string {
	switch {
	case strings.Contains(text, "configmap"):
		return "create the ConfigMap, or the key, that the text names; or mark the reference optional"
	case strings.Contains(text, "secret"):
		return "create the Secret, or the key, that the text names; or mark the reference optional"
	case strings.Contains(text, "hostPath"):
		return "make the path on the node, or use a hostPath type that creates it"
	}
	return "mend what the text names"
}

func starting(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) || in.Pod.Spec.NodeName == "" {
		return nil
	}
	a := &Answer{State: "ContainerCreating", Since: in.Pod.CreationTimestamp.Time,
		Cause: "The kubelet is making the Pod."}
	if _, at, ok := newest[journal.Bound](in, nil); ok {
		a.Since = at
	}
	pull, at, pulling := newest[journal.Pulling](in, nil)
	if _, done, came := newest[journal.Pulled](in, nil); pulling && (!came || done.Before(at)) {
		a.State, a.Since = "pulling", at
		a.Cause, a.Next = pullingNow(in, pull, at)
		return a
	}
	if w, at, ok := newest[journal.Waiting](in, nil); ok {
		a.Cause, a.Since, a.Next = "The kubelet "+w.Line()+".", at, w.Next
		if w.Fix != "" {
			a.Fixes = textFixes(w.Fix)
		}
	} else if len(in.Entries) > 0 {
		a.Facts = append(a.Facts, "last: "+in.Entries[len(in.Entries)-1].Fact.Line())
	}
	if _, _, seen := newest[journal.Accepted](in, nil); !seen && in.Node != nil {
		a.Cause = fmt.Sprintf("The Pod is bound to node %s, whose kubelet has not reported it yet.", in.Node.Name)
	}
	return a
}

// pullingNow describes the newest pull: its place in the queue, or the bytes if the runtime reports
// them.
func pullingNow(in In, pull journal.Pulling, since time.Time) (cause, next string) {
	same := func(image string, at time.Time) bool { return image == pull.Image && !at.Before(since) }
	took := ago(in.Now.Sub(since))
	p, at, reported := newest[journal.PullProgress](in, nil)
	if reported && same(p.Image, at) && p.Unpacking() {
		return fmt.Sprintf("The image %s of container %s is being unpacked: all %s are fetched, for %s now.",
			pull.Image, pull.Container, journal.Megabytes(p.Total), took), ""
	}
	if reported && same(p.Image, at) {
		return fmt.Sprintf("The image %s of container %s is being pulled: %s of %s, for %s now.",
				pull.Image, pull.Container, journal.Megabytes(p.Bytes), journal.Megabytes(p.Total), took),
			pullTimeLeft(p, at.Sub(since), at, in.Now)
	}
	q, at, queued := newest[journal.PullQueued](in, nil)
	turn := func(w journal.Waited) bool { return w.For == journal.QueuedPullTarget(pull.Image) }
	if _, begun, ok := newest(in, turn); queued && same(q.Image, at) && (!ok || begun.Before(at)) {
		return fmt.Sprintf("The image %s of container %s waits for its turn to be pulled, for %s now: place %d in "+
				"the queue, behind %s.",
				pull.Image, pull.Container, took, q.Position, strings.Join(q.Pulling, ", ")),
			fmt.Sprintf("it is pulled when one of them has ended; %d may be pulled side by side "+
				"(serializeImagePulls, maxParallelImagePulls)", q.Limit)
	}
	return fmt.Sprintf("The image %s of container %s is being pulled, for %s now.", pull.Image, pull.Container,
		took), ""
}

// pullTimeLeft estimates the remaining time of a pull from its average speed; empty if that is not
// possible.
func pullTimeLeft(p journal.PullProgress, took time.Duration, reported, now time.Time) string {
	if p.Bytes <= 0 || took < time.Second || p.Total <= p.Bytes {
		return ""
	}
	more := time.Duration(float64(took)*float64(p.Total-p.Bytes)/float64(p.Bytes)) - now.Sub(reported)
	return fmt.Sprintf("the container is made when the image is there; at the rate so far the pull takes about %s more",
		ago(max(more, time.Second)))
}
