package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

func notStarted(p *corev1.Pod) bool {
	for _, c := range containers(p) {
		if c.status != nil && (c.status.State.Running != nil || c.status.State.Terminated != nil || c.status.RestartCount > 0) {
			return false
		}
	}
	return true
}

func volumeWaits(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) {
		return nil
	}
	w, at, ok := newest[journal.VolumeWaiting](in, nil)
	if ok {
		if _, done, came := newest[journal.VolumeReady](in, func(r journal.VolumeReady) bool { return r.Volume == w.Volume }); came && done.After(at) {
			ok = false
		}
	}
	if !ok {
		return nil
	}
	fix := w.Fix
	if fix == "" {
		fix = missing(w.Message)
	}
	return &Answer{State: "ContainerCreating", Since: at, Cause: fmt.Sprintf("Volume %s (%s) is not ready: %s.", w.Volume, w.Type, strings.TrimSuffix(w.Message, ".")),
		Next: "it is tried again with growing pauses, and at once when the missing object appears", Fixes: says(fix)}
}

// missing turns the text of a missing object into what to create.
func missing(text string) string {
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

func sandboxFails(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) {
		return nil
	}
	call, at, ok := newest[journal.Called](in, func(c journal.Called) bool { return c.Method == "RunPodSandbox" })
	if !ok || call.Error == "" {
		return nil
	}
	return &Answer{State: "ContainerCreating", Since: at, Cause: "The runtime cannot make the Pod's sandbox (network and namespaces): " + call.Error,
		Next: "it is tried again", Fixes: says("read the runtime's message above; the network's configuration lies where --cni-conf-dir points")}
}

var imageReasons = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}

func imageFails(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		w := c.waiting()
		if w == nil || !slices.Contains(imageReasons, w.Reason) {
			continue
		}
		a := &Answer{State: w.Reason, Cause: fmt.Sprintf("The image %s of container %s cannot be had: %s", c.spec.Image, c.spec.Name, w.Message)}
		image := func(f journal.PullFailed) bool { return f.Image == c.spec.Image && f.Reason != "ImagePullBackOff" }
		if f, at, ok := newest[journal.PullFailed](in, image); ok {
			a.Cause = fmt.Sprintf("The image %s of container %s cannot be had: %s", c.spec.Image, c.spec.Name, f.Message)
			a.Facts = append(a.Facts, fmt.Sprintf("last try %s ago", ago(in.Now.Sub(at))))
		}
		if f, _, ok := newest[journal.PullFailed](in, func(f journal.PullFailed) bool { return f.Image == c.spec.Image && !f.RetryAt.IsZero() }); ok && f.RetryAt.After(in.Now) {
			a.Next = "next try in " + ago(f.RetryAt.Sub(in.Now))
		}
		a.Fixes = imageFixes(w.Reason, a.Cause, c.spec)
		return a
	}
	return nil
}

func imageFixes(reason, text string, c *corev1.Container) []Fix {
	low := strings.ToLower(text)
	switch {
	case reason == "ErrImageNeverPull":
		return says("import the image on the node, or set imagePullPolicy to IfNotPresent")
	case reason == "InvalidImageName":
		return says("correct the image's name: lower case, host/path:tag")
	case strings.Contains(low, "unauthorized"), strings.Contains(low, "authorization failed"), strings.Contains(low, "no basic auth"), strings.Contains(low, "forbidden"), strings.Contains(low, "denied"):
		return says("give the Pod an imagePullSecret whose host is exactly that of " + c.Image)
	case strings.Contains(low, "not found"), strings.Contains(low, "manifest unknown"):
		return says("correct the tag or push it: the registry answers, but has no " + c.Image)
	case strings.Contains(low, "refused"), strings.Contains(low, "no such host"), strings.Contains(low, "timeout"):
		return says("start the registry or mend the way to it: it does not answer")
	}
	return says("read the registry's message above")
}

var configReasons = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError"}

func configFails(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		w := c.waiting()
		if w == nil || !slices.Contains(configReasons, w.Reason) {
			continue
		}
		a := &Answer{State: w.Reason, Cause: fmt.Sprintf("Container %s cannot be made: %s", c.spec.Name, w.Message), Next: "it is tried again with growing pauses"}
		switch low := strings.ToLower(w.Message); {
		case strings.Contains(low, "non-numeric user"), strings.Contains(low, "runasnonroot"):
			a.Fixes = says("set securityContext.runAsUser to the user's number, or let the image name its user by number")
		case strings.Contains(low, "executable file not found"), strings.Contains(low, "no such file"):
			a.Fixes = says("correct the command: it is not in the image")
		default:
			a.Fixes = says(missing(w.Message))
		}
		return a
	}
	return nil
}

func initialising(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	n, done := len(in.Pod.Spec.InitContainers), 0
	for _, c := range containers(in.Pod) {
		if !c.init || c.status == nil {
			continue
		}
		sidecar := c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
		switch {
		case c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0, sidecar && c.status.Started != nil && *c.status.Started:
			done++
		case c.status.State.Running != nil:
			what := "to end"
			if sidecar {
				what = "to have started (its startup probe)"
			}
			return &Answer{State: fmt.Sprintf("Init:%d/%d", done, n), Since: c.status.State.Running.StartedAt.Time,
				Cause: fmt.Sprintf("Init container %s (%d of %d) runs, and everything after it waits for it %s.", c.spec.Name, done+1, n, what),
				Fixes: []Fix{do("see what it does", fmt.Sprintf("kubectl -n %s logs %s -c %s", in.Ref.Namespace, in.Ref.Name, c.spec.Name))}}
		}
	}
	return nil
}

func starting(in In) *Answer {
	if in.Pod == nil || !notStarted(in.Pod) || in.Pod.Spec.NodeName == "" {
		return nil
	}
	a := &Answer{State: "ContainerCreating", Since: in.Pod.CreationTimestamp.Time, Cause: "The kubelet is making the Pod."}
	if _, at, ok := newest[journal.Bound](in, nil); ok {
		a.Since = at
	}
	pull, at, pulling := newest[journal.Pulling](in, nil)
	if _, done, came := newest[journal.Pulled](in, nil); pulling && (!came || done.Before(at)) {
		a.State, a.Since = "pulling", at
		a.Cause = fmt.Sprintf("The image %s of container %s is being pulled, for %s now.", pull.Image, pull.Container, ago(in.Now.Sub(at)))
		return a
	}
	if w, at, ok := newest[journal.Waiting](in, nil); ok {
		a.Cause, a.Since, a.Next = "The kubelet "+w.Line()+".", at, w.Next
	} else if len(in.Entries) > 0 {
		a.Facts = append(a.Facts, "last: "+in.Entries[len(in.Entries)-1].Fact.Line())
	}
	if _, _, seen := newest[journal.Accepted](in, nil); !seen && in.Node != nil {
		a.Cause = fmt.Sprintf("The Pod is bound to node %s, whose kubelet has not reported it yet.", in.Node.Name)
	}
	return a
}
