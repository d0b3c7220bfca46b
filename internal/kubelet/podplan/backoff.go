package podplan

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// The crash back-off needs no memory but the containers themselves: each carries the wait that
// follows its end. The first start carries none, the first restart 10 s, then twice the one before
// up to 5 min; a container that ran for more than twice the longest wait starts over.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#how-pods-handle-problems-with-containers

// Upstream's kubelet shows how a container has ended until it comes by again: when another
// container of the Pod starts or ends, else mostly at the end of the back-off, and then for an
// instant the back-off. Here the back-off is there for those who poll, too: in the last seconds of
// the wait, and after 18 s of it.
const (
	minExitShown      = 4 * time.Second
	backOffShownAfter = 18 * time.Second
)

// BackOffShown is when the status of c begins to show its back-off, which ends at the given time,
// in place of how it has ended.
func BackOffShown(seen Observed, c *Container, until time.Time) time.Time {
	for _, other := range seen.Containers {
		if other.Name != c.Name && (other.Started.After(c.Finished) || other.Finished.After(c.Finished)) {
			return c.Finished
		}
	}
	shown := until.Add(-minExitShown)
	if latest := c.Finished.Add(backOffShownAfter); latest.Before(shown) {
		shown = latest
	}
	return shown
}

// delay is how long to wait after the end of c.
func (l Limits) delay(c *Container) time.Duration {
	d := c.Annotations.CrashDelay
	if d < 0 { // made by another kubelet: count its restarts
		d = 0
		for range min(c.Attempt, 16) {
			d = l.grow(d)
		}
	}
	return min(d, l.max())
}

func (l Limits) grow(d time.Duration) time.Duration {
	if d <= 0 {
		return l.first()
	}
	return min(2*d, l.max())
}

// next returns when a container may follow c (upstream: doBackOff), and the wait that the follower
// carries.
func (l Limits) next(c *Container) (at time.Time, carry time.Duration) {
	d := l.delay(c)
	startedAt := c.Started
	if startedAt.IsZero() {
		startedAt = c.Created
	}
	if c.Finished.Sub(startedAt) > 2*l.max() {
		return c.Finished, l.first()
	}
	return c.Finished.Add(d), l.grow(d)
}

// afterUnhealthy is next for a running container that is stopped because a probe failed: its wait
// counts from the end of the container before it, and the first such restart carries none. So does
// upstream.
func (l Limits) afterUnhealthy(c, before *Container, now time.Time) (ok bool, carry time.Duration) {
	if before == nil {
		return true, 0
	}
	d := l.delay(c)
	if now.Sub(c.Started) > 2*l.max() {
		return true, l.first()
	}
	return !now.Before(before.Finished.Add(d)), l.grow(d)
}

// BackOffMessage is upstream's message of a container that waits in crash back-off; d is the whole
// delay, printed as time.Duration prints it ("5m0s"), and not what is left of it.
func BackOffMessage(pod *v1.Pod, container string, d time.Duration) string {
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", d, container, FullName(pod))
}

// FullName is how upstream's texts name a Pod: name_namespace(uid).
func FullName(pod *v1.Pod) string {
	return pod.Name + "_" + pod.Namespace + "(" + string(pod.UID) + ")"
}

// backingOff says that container c is followed only later.
func (in In) backingOff(c *Container, until time.Time) journal.BackingOff {
	d := in.Limits.delay(c)
	return journal.BackingOff{
		Container: c.Name, What: "CrashLoopBackOff", Delay: journal.Took(d), Until: until,
		Message: BackOffMessage(in.Pod, c.Name, d),
	}
}
