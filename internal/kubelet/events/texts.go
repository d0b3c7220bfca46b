package events

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Created tells that a container was made.
func (r *Recorder) Created(pod *v1.Pod, container string) {
	r.Container(pod, container, Text{v1.EventTypeNormal, "Created", "Container created"})
}

// Started tells that a container runs.
func (r *Recorder) Started(pod *v1.Pod, container string) {
	r.Container(pod, container, Text{v1.EventTypeNormal, "Started", "Container started"})
}

// Killing tells that a container is being stopped.
func (r *Recorder) Killing(pod *v1.Pod, container, why string) {
	r.Container(pod, container, Text{v1.EventTypeNormal, "Killing", why})
}

// Failed tells that a container could not be made or started.
func (r *Recorder) Failed(pod *v1.Pod, container, message string) {
	r.Container(pod, container, Text{v1.EventTypeWarning, "Failed", "Error: " + message})
}

// BackOff tells that a container keeps ending; name is the Pod's full name.
func (r *Recorder) BackOff(pod *v1.Pod, container, name string) {
	r.Container(pod, container,
		Text{v1.EventTypeWarning, "BackOff", "Back-off restarting failed container " + container + " in pod " + name})
}

// SandboxChanged tells that a sandbox died under its Pod.
func (r *Recorder) SandboxChanged(pod *v1.Pod) {
	r.Pod(pod, v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
}

// SandboxFailed tells that no sandbox could be made.
func (r *Recorder) SandboxFailed(pod *v1.Pod, err error) {
	r.Pod(pod, v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+err.Error())
}

// Hook tells that a lifecycle hook failed: FailedPostStartHook or FailedPreStopHook.
func (r *Recorder) Hook(pod *v1.Pod, container, reason, message string) {
	r.Container(pod, container, Text{v1.EventTypeWarning, reason, message})
}

// PullSecretsMissing tells that a pull failed of a Pod whose pull secrets are not all there.
func (r *Recorder) PullSecretsMissing(pod *v1.Pod, names []string) {
	r.Pod(pod, v1.EventTypeWarning, "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets ("+
		strings.Join(names, ", ")+"); attempting to pull the image may not succeed.")
}

// DeadlineExceeded tells that the Pod's activeDeadlineSeconds are over.
func (r *Recorder) DeadlineExceeded(pod *v1.Pod, reason, message string) {
	r.Pod(pod, v1.EventTypeNormal, reason, message)
}
