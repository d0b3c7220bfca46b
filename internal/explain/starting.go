package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

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
		w.Type, strings.TrimSuffix(w.Message, ".")),
		Next: "it is tried again with growing pauses, and at once when the missing object appears"}
	if m := objectPattern.FindStringSubmatch(w.Message); m != nil {
		objectMissing(a, in, objectKey{kind: kinds[m[1]], name: m[2]})
	}
	fix := w.Fix
	if fix == "" {
		fix = createHint(w.Message)
	}
	a.Fixes = append(a.Fixes, hostPathFixes(in, w.Volume)...)
	a.Fixes = append(a.Fixes, textFixes(fix)...)
	return a
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
		return []Fix{
			editedPodFix(in, fmt.Sprintf("let the kubelet make %s, empty, where it is missing: type %s instead of %s",
				v.HostPath.Path, to, *v.HostPath.Type), func(s *corev1.PodSpec) {
				for i := range s.Volumes {
					if s.Volumes[i].Name == volume {
						s.Volumes[i].HostPath.Type = &to
					}
				}
			})}
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

func sandboxFailed(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) {
		return nil
	}
	call, at, ok := newest[journal.Called](in, func(c journal.Called) bool { return c.Method == "RunPodSandbox" })
	if !ok || call.Error == "" {
		return nil
	}
	return &Answer{State: "ContainerCreating", Since: at,
		Cause: "The runtime cannot make the Pod's sandbox (network and namespaces): " + call.Error,
		Next:  "it is tried again",
		Fixes: textFixes("read the runtime's message above; the network's configuration lies where --cni-conf-dir " +
			"points")}
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
