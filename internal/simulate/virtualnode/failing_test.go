package virtualnode

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods fail by the reason for which a container waits, or by how long one runs unready.
func TestFailing(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	waits := func(reason string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
	}
	runs := func(since time.Duration) v1.ContainerState {
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-since))}}
	}
	for name, c := range map[string]struct {
		state v1.ContainerState
		init  bool
		ready time.Duration
		want  string
	}{
		"starts":               {waits("ContainerCreating"), false, time.Second, ""},
		"crashes":              {waits("CrashLoopBackOff"), false, time.Second, "CrashLoopBackOff"},
		"its image is not had": {waits("ImagePullBackOff"), true, time.Second, "ImagePullBackOff"},
		"is configured wrong": {waits("CreateContainerConfigError"), false, time.Second,
			"CreateContainerConfigError"},
		"runs for a short time": {runs(4 * time.Minute), false, time.Second, ""},
		"is unready for long":   {runs(6 * time.Minute), false, time.Second, "unready for 6m0s"},
		"is slow":               {runs(6 * time.Minute), false, time.Minute, ""},
		"is slow and unready":   {runs(11 * time.Minute), false, time.Minute, "unready for 11m0s"},
	} {
		p, statuses := &v1.Pod{}, []v1.ContainerStatus{{State: c.state}}
		if c.init {
			p.Status.InitContainerStatuses = statuses
		} else {
			p.Status.ContainerStatuses = statuses
		}
		if got := failing(p, c.ready, now); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		p.Status.Phase = v1.PodFailed
		if got := failing(p, c.ready, now); got != "" {
			t.Errorf("%s, and ended: got %q, want none", name, got)
		}
	}
}
