package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/images"
)

var imageReasons = []string{"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
	"ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}

// imagePull is a container whose image cannot be pulled.
type imagePull struct {
	input     In
	container container
	text      string // the runtime's last message
	secrets   []journal.PullSecret
	host      string // host of the registry
	repo      string
	tag       string
}

func imagePullFailed(in In) *Answer {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		w := c.waiting()
		if w == nil || !slices.Contains(imageReasons, w.Reason) {
			continue
		}
		return imageAnswer(in, c, w)
	}
	return nil
}

// imageAnswer explains one container that waits for its image.
func imageAnswer(in In, c container, w *corev1.ContainerStateWaiting) *Answer {
	p := imagePull{input: in, container: c, text: w.Message}
	if named, err := reference.ParseNormalizedNamed(c.spec.Image); err == nil {
		p.host, p.repo = reference.Domain(named), reference.Path(named)
		if t, ok := reference.TagNameOnly(named).(reference.Tagged); ok {
			p.tag = t.Tag()
		}
	}
	a := &Answer{State: w.Reason}
	failed := func(f journal.PullFailed) bool { return f.Image == c.spec.Image && f.Reason != "ImagePullBackOff" }
	if f, at, ok := newest[journal.PullFailed](in, failed); ok {
		p.text, p.secrets = f.Message, f.Secrets
		a.Facts = append(a.Facts, fmt.Sprintf("last try %s ago", ago(in.Now.Sub(at))))
	}
	if f, _, ok := newest[journal.PullFailed](in,
		func(f journal.PullFailed) bool { return f.Image == c.spec.Image && !f.RetryAt.IsZero() }); ok &&
		f.RetryAt.After(in.Now) {
		a.Next = "next try in " + ago(f.RetryAt.Sub(in.Now))
	}
	p.classify(a, w.Reason)
	p.reportPresence(a)
	a.Facts = append(a.Facts, "the runtime's words: "+p.text)
	return a

