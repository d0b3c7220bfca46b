package virtualnode

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// failures are the reasons for which a container waits that time does not mend.
var failures = []string{"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName",
	"CreateContainerConfigError", "CreateContainerError"}

// A container that runs unready for unreadyFactor times its time to become ready, and for
// leastUnready at least, is not expected to become ready: where nothing was measured, the time is
// assumed and short.
const (
	unreadyFactor = 10
	leastUnready  = 5 * time.Minute
)

// failing returns why a Pod that was taken in fails in its cluster; empty: it does not. ready is
// the time its containers take to become ready.
func failing(p *v1.Pod, ready time.Duration, now time.Time) string {
	if pod.IsTerminal(p) {
		return ""
	}
	for _, st := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := st.State.Waiting; w != nil && slices.Contains(failures, w.Reason) {
			return w.Reason
		}
	}
	for _, st := range p.Status.ContainerStatuses {
		if r := st.State.Running; r != nil && !st.Ready {
			if since := now.Sub(r.StartedAt.Time); since > max(unreadyFactor*ready, leastUnready) {
				return fmt.Sprintf("unready for %s", since.Round(time.Second))
			}
		}
	}
	return ""
}

// Failing returns the Pods that fail in the cluster that was copied, as namespace/name (why),
// sorted. They stay as they are until they are deleted.
func (k *Kubelets) Failing() []string {
	var out []string
	for _, w := range k.pods {
		if w.fails != "" {
			out = append(out, fmt.Sprintf("%s (%s)", pod.Key(w.pod), w.fails))
		}
	}
	slices.Sort(out)
	return out
}
