package events

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Sink takes events; client-go's record.EventRecorder is one.
type Sink interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Recorder tells events about Pods and their containers.
type Recorder struct{ to Sink }

// New returns a Recorder that tells to.
func New(to Sink) *Recorder { return &Recorder{to} }

// Event tells an event about any object.
func (r *Recorder) Event(object runtime.Object, eventtype, reason, message string) {
	r.to.Event(object, eventtype, reason, message)
}

// Pod tells an event about a Pod.
func (r *Recorder) Pod(pod *v1.Pod, eventtype, reason, message string) {
	r.to.Event(RefOf(pod, ""), eventtype, reason, message)
}

// Text is what an event says.
type Text struct{ Type, Reason, Message string }

// Container tells an event about one of a Pod's containers.
func (r *Recorder) Container(pod *v1.Pod, container string, t Text) {
	r.to.Event(RefOf(pod, FieldPath(pod, container)), t.Type, t.Reason, t.Message)
}

// RefOf is the object an event is about; path is the field of a container, or empty.
func RefOf(pod *v1.Pod, path string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: path,
	}
}

// FieldPath is where a container stands in its Pod, like spec.initContainers{name}; empty when it
// is not there.
func FieldPath(pod *v1.Pod, container string) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			return fmt.Sprintf("spec.containers{%s}", container)
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return fmt.Sprintf("spec.initContainers{%s}", container)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			return fmt.Sprintf("spec.ephemeralContainers{%s}", container)
		}
	}
	return ""
}
