package pull

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/pod"
)

// tale tells one request's story: events to the Pod, facts to the journal.
type tale struct {
	*Request
	d         Deps
	image     string
	policy    v1.PullPolicy
	container string
	on        *v1.ObjectReference
}

func newTale(d Deps, r *Request) *tale {
	t := &tale{Request: r, d: d, image: r.Image, policy: r.Policy}
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
	t.on = events.RefOf(r.Pod, path)
	return t
}

func (t *tale) event(kind, reason, message string) { t.d.Recorder.Event(t.on, kind, reason, message) }
func (t *tale) warn(reason, message string)        { t.event(v1.EventTypeWarning, reason, message) }

func (t *tale) put(f journal.Fact) {
	t.d.Journal.Put(pod.Ref(t.Pod), f)
}

func (t *tale) present(bytes uint64, asking time.Duration) {
	t.event(v1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", t.image))
	t.put(journal.Pulled{Image: t.image, Bytes: bytes, Present: true, Took: journal.Took(asking)})
}

func (t *tale) pulling() {
	t.event(v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", t.image))
	t.put(journal.Pulling{Image: t.image, Container: t.container})
}

func (t *tale) pulled(got pulled, waited time.Duration) {
	t.event(v1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
		t.image, got.took.Truncate(time.Millisecond), waited.Truncate(time.Millisecond), got.bytes))
	t.put(journal.Pulled{Image: t.image, Bytes: got.bytes, Took: journal.Took(waited)})
}
