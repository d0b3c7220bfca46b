package explain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/pod"
)

// inOrder makes notes of what a Pod's own end brings with it: while its grace period runs, nothing
// of the Pod's is broken but what holds the object.
func inOrder(in In, list []finding.Finding) []finding.Finding {
	if in.Pod == nil || in.Pod.DeletionTimestamp == nil || in.Now.After(in.Pod.DeletionTimestamp.Add(endSlack)) {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if f := &list[i]; f.Object == in.object() && !(f.Code == "FinalizerHolds" && len(in.Pod.Finalizers) > 0) {
			f.Severity = finding.Note
		}
	}
	return list
}

// endedByDeletion reports whether a container ended after its Pod was asked to go: whatever its
// exit code, it did as it was told.
func endedByDeletion(p *corev1.Pod, t *corev1.ContainerStateTerminated) bool {
	if p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil {
		return false
	}
	return !t.FinishedAt.Time.Before(p.DeletionTimestamp.Add(-secondsOf(*p.DeletionGracePeriodSeconds)))
}

// endSlack is how long after its grace period a Pod may take to go.
const endSlack = 5 * time.Second

// sidecarEndedWithPod reports whether a sidecar was ended because all containers that it serves had
// ended: whatever its exit code, it did as it was told.
func sidecarEndedWithPod(p *corev1.Pod, c container, t *corev1.ContainerStateTerminated) bool {
	if !c.init || !pod.IsSidecar(c.spec) {
		return false
	}
	for _, x := range containers(p) {
		if x.init {
			continue
		}
		if x.status == nil || x.status.State.Terminated == nil ||
			x.status.State.Terminated.FinishedAt.Time.After(t.FinishedAt.Time) {
			return false
		}
	}
	return true
}

// withRemedies gives the answer's remedies to those of its findings that hinder and have none.
func withRemedies(a Answer, told []finding.Finding) []finding.Finding {
	told = slices.Clone(told)
	for i := range told {
		if told[i].Severity == finding.Broken && len(told[i].Remedies) == 0 {
			told[i].Remedies = asRemedies(a.Fixes)
		}
	}
	return told
}
