package podgc

import (
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/pod"
)

// TerminatedPodThreshold is how many terminated Pods are kept before the oldest are deleted
// (upstream's --terminated-pod-gc-threshold).
const TerminatedPodThreshold = 12500

// QuarantineTime is how long a node must have been missing before its Pods are deleted.
const QuarantineTime = 40 * time.Second

// In is the input of Next.
type In struct {
	Pods                []*corev1.Pod
	Nodes               map[string]*corev1.Node
	Missing             map[string]time.Time // since when a node that Pods name does not exist
	TerminatedThreshold int
	Now                 time.Time
	// Quarantine is how long a node must have been missing, usually QuarantineTime.
	Quarantine time.Duration
}

// Removal is one Pod to delete and why. Fail: mark it Failed first, for controllers that count its
// end.
type Removal struct {
	Pod     *corev1.Pod
	Reason  string
	Message string
	Fail    bool
}

// noNode is the message for a Pod whose node is gone.
const noNode = "PodGC: node no longer exists"

// Next returns the Pods to delete, each once, and the missing nodes with the time since when.
func Next(in In) ([]Removal, map[string]time.Time) {
	missing := map[string]time.Time{}
	var out []Removal
	var ended []*corev1.Pod
	for _, p := range in.Pods {
		if node := p.Spec.NodeName; node != "" && in.Nodes[node] == nil {
			since, known := in.Missing[node]
			if !known {
				since = in.Now
			}
			missing[node] = since
			if in.Now.Sub(since) >= in.Quarantine {
				out = append(out, Removal{p, "DeletionByPodGC", noNode, true})
				continue
			}
		}
		switch {
		case p.DeletionTimestamp != nil && p.Spec.NodeName == "":
			out = append(out, Removal{p, "unscheduled", "PodGC: unscheduled Pod is terminating", false})
		case p.DeletionTimestamp != nil && outOfService(in.Nodes[p.Spec.NodeName]):
			out = append(out, Removal{p, "DeletionByPodGC", "PodGC: node has the out-of-service taint", true})
		case p.DeletionTimestamp == nil && pod.IsTerminal(p):
			ended = append(ended, p)
		}
	}
	return append(out, oldestTerminated(ended, in.TerminatedThreshold)...), missing
}

// wait returns the time until the next sync: until a missing node's quarantine ends, at most the
// usual period.
func wait(in In, missing map[string]time.Time) time.Duration {
	next := gcCheckPeriod
	for _, since := range missing {
		if left := since.Add(in.Quarantine).Sub(in.Now); left > 0 {
			next = min(next, left)
		}
	}
	return next
}

func outOfService(n *corev1.Node) bool {
	if n == nil {
		return false
	}
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return !node.IsReady(n)
		}
	}
	return false
}

func oldestTerminated(ended []*corev1.Pod, keep int) []Removal {
	if keep <= 0 || len(ended) <= keep {
		return nil
	}
	sort.Slice(ended, func(i, j int) bool {
		if a, b := ended[i].CreationTimestamp, ended[j].CreationTimestamp; !a.Equal(&b) {
			return a.Before(&b)
		}
		return ended[i].Name < ended[j].Name
	})
	var out []Removal
	for _, p := range ended[:len(ended)-keep] {
		out = append(out, Removal{p, "terminated", "PodGC: more ended Pods than are kept", false})
	}
	return out
}
