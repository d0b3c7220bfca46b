package pull

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// podPull reports one request: events to the Pod, facts to the journal.
type podPull struct {
	*Request
	d         Deps
	image     string
	policy    v1.PullPolicy
	container string
	object    *v1.ObjectReference
}

func newPodPull(d Deps, r *Request) *podPull {
	t := &podPull{Request: r, d: d, image: r.Image, policy: r.Policy}
	if r.Container != nil {
		t.container = r.Container.Name
		if t.image == "" {
			t.image = r.Container.Image
		}
		if t.policy == "" {
			t.policy = r.Container.ImagePullPolicy
		}
	}
	path := r.FieldPath
	if path == "" && t.container != "" {
		path = events.FieldPath(r.Pod, t.container)
	}
	t.object = events.RefOf(r.Pod, path)
	return t
}

func (t *podPull) event(kind, reason, message string) {
	t.d.Recorder.Event(t.object, kind, reason, message)
}
func (t *podPull) warn(reason, message string) { t.event(v1.EventTypeWarning, reason, message) }

// warnContainer tells that a container cannot be made without the image. Of an image volume each
// container that mounts it tells it.
func (t *podPull) warnContainer(why reason.Code) {
	if t.Container != nil {
		t.warn("Failed", "Error: "+string(why))
	}
}

func (t *podPull) put(f journal.Fact) {
	t.d.Journal.Put(pod.Ref(t.Pod), f)
}

func (t *podPull) reportPresent(bytes uint64, lookupTime time.Duration) {
	t.event(v1.EventTypeNormal,
		"Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", t.image))
	t.put(journal.Pulled{Image: t.image, Bytes: bytes, Present: true, Took: journal.Took(lookupTime)})
}

func (t *podPull) reportPulling() {
	t.event(v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", t.image))
	t.put(journal.Pulling{Image: t.image, Container: t.container})
}

func (t *podPull) reportPulled(got pullResult, waited time.Duration) {
	t.event(v1.EventTypeNormal,
		"Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
			t.image, got.took.Truncate(time.Millisecond), waited.Truncate(time.Millisecond), got.bytes))
	t.put(journal.Pulled{Image: t.image, Bytes: got.bytes, Took: journal.Took(waited)})
}
