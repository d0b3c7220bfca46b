package events

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// recorded keeps what an event was about and said.
type recorded struct{ list []string }

func (r *recorded) Event(object runtime.Object, eventtype, reason, message string) {
	o := object.(*v1.ObjectReference)
	r.list = append(r.list, fmt.Sprintf("%s %s/%s %s %s: %s %s %s", o.Kind, o.Namespace, o.Name, o.UID, o.FieldPath,
		eventtype, reason, message))
}

// An event about a container names its Pod, and where the container stands in it.
//
// row: OPS-05
func TestEventsNameTheContainersField(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init-myservice"}}, Containers: []v1.Container{{Name: "app"}},
		EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}}}}
	for container, want := range map[string]string{
		"init-myservice": "Pod ns/p u spec.initContainers{init-myservice}: Normal Created Container created",
		"app":            "Pod ns/p u spec.containers{app}: Normal Created Container created",
		"debugger":       "Pod ns/p u spec.ephemeralContainers{debugger}: Normal Created Container created",
		"gone":           "Pod ns/p u : Normal Created Container created",
	} {
		to := &recorded{}
		New(to).Container(p, container, Text{v1.EventTypeNormal, "Created", "Container created"})
		if len(to.list) != 1 || to.list[0] != want {
			t.Errorf("container %s: got %q, want %q", container, to.list, want)
		}
	}
}
