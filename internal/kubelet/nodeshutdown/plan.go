package nodeshutdown

import (
	"errors"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// Step is how long Pods of at least a priority have.
type Step struct {
	Priority int32
	Period   time.Duration
}

// Steps are those of a configuration, the lowest priority first; none when nothing is to be done at
// a shutdown.
func Steps(c *kubeletconfig.KubeletConfiguration) []Step {
	var out []Step
	for _, p := range c.ShutdownGracePeriodByPodPriority {
		out = append(out, Step{p.Priority, time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	if total, critical := c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration; len(out) == 0 &&
		total > 0 && critical <= total {
		out = []Step{{0, (total - critical).Truncate(time.Second)},
			{pod.SystemCritical, critical.Truncate(time.Second)}}
	}
	slices.SortStableFunc(out, func(a, b Step) int {
		switch {
		case a.Priority < b.Priority:
			return -1
		case a.Priority > b.Priority:
			return 1
		}
		return 0
	})
	return out
}

// TotalPeriod is how long all steps take: what the system has to wait for this node.
func TotalPeriod(steps []Step) (sum time.Duration) {
	for _, s := range steps {
		sum += s.Period
	}
	return sum
}

// Group is the Pods of one step.
type Group struct {
	Step
	Pods []PodShutdown
}

// PodShutdown is one Pod and how long it has from the begin of its group.
type PodShutdown struct {
	Pod   *v1.Pod
	Grace time.Duration
}

// Plan puts Pods into the steps, in the order in which they end. A Pod belongs to the highest step
// that is not above its priority; one below all steps to the lowest. Steps without Pods are left
// out: nobody waits for them.
func Plan(steps []Step, pods []*v1.Pod) []Group {
	if len(steps) == 0 {
		return nil
	}
	groups := make([]Group, len(steps))
	for i, s := range steps {
		groups[i].Step = s
	}
	for _, p := range pods {
		if pod.IsTerminal(p) {
			continue
		}
		priority := pod.Priority(p)
		i := sort.Search(len(steps), func(i int) bool { return steps[i].Priority > priority }) - 1
		g := &groups[max(i, 0)]
		grace := g.Period
		if own := p.Spec.TerminationGracePeriodSeconds; own != nil {
			grace = min(grace, pod.Seconds(*own))
		}
		g.Pods = append(g.Pods, PodShutdown{p, grace})
	}
	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Pods) == 0 })
}

// Texts of a Pod that a shutdown ends, and of one that comes too late.
const (
	Reason  = "Terminated"
	Message = "Pod was terminated in response to imminent node shutdown."

	refusedMessage = "Pod was rejected as the node is shutting down."
)

// Termination is the request that a Pod end by the shutdown.
func (t PodShutdown) Termination(now time.Time) podplan.Termination {
	return podplan.Termination{Cause: "node shutdown", Reason: Reason, Message: Message, Victim: Message,
		RequestedAt: now, Grace: t.Grace}
}

// Refusal is what Pods get that come while the node shuts down.
func Refusal() *reason.Refusal {
	return &reason.Refusal{Code: reason.NodeShutdown, By: "kubelet/drain", Detail: refusedMessage,
		Fix: "let it be placed on another node"}
}

// ErrShuttingDown is why the node is not Ready meanwhile.
var ErrShuttingDown = errors.New("node is shutting down")
