package replicaset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	podutil "github.com/gantry-project/gantry/internal/pod"
)

// burst bounds the Pods that one sync creates or deletes.
const burst = 500

// In is the input of Next: a ReplicaSet and the Pods it controls.
type In struct {
	Set  *appsv1.ReplicaSet
	Pods []*corev1.Pod
	// Siblings is the number of Pods of the same workload by node; Pods on nodes with more are
	// deleted first.
	Siblings map[string]int
	Now      time.Time
}

// Plan is the outcome of Next.
type Plan struct {
	Create int
	Delete []*corev1.Pod
}

// Next compares the wanted number with the active Pods (upstream: manageReplicas). A terminating
// set is left alone.
func Next(in In) Plan {
	if in.Set.DeletionTimestamp != nil {
		return Plan{}
	}
	live := Active(in.Pods)
	diff := len(live) - int(replicas(in.Set))
	switch {
	case diff < 0:
		return Plan{Create: min(-diff, burst)}
	case diff > 0:
		return Plan{Delete: rankPodsToDelete(live, in.Siblings, in.Now)[:min(diff, burst)]}
	}
	return Plan{}
}

func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// Active returns the Pods that count: neither terminated nor terminating.
func Active(pods []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range pods {
		if podutil.IsActive(p) {
			out = append(out, p)
		}
	}
	return out
}

// deletionAgeRatios are, of the ready Pods that a plan deletes, the ages divided by that of the
// youngest ready Pod, in whole numbers as upstream has them; none when all Pods go.
func deletionAgeRatios(in In, p Plan) []float64 {
	live := Active(in.Pods)
	if len(p.Delete) == len(live) {
		return nil
	}
	var youngest time.Time
	for _, pod := range live {
		if podutil.IsReady(pod) && pod.CreationTimestamp.After(youngest) {
			youngest = pod.CreationTimestamp.Time
		}
	}
	least := in.Now.Sub(youngest).Milliseconds()
	if least <= 0 {
		return nil // there is no ratio to an age of nothing
	}
	var out []float64
	for _, pod := range p.Delete {
		if podutil.IsReady(pod) {
			out = append(out, float64(in.Now.Sub(pod.CreationTimestamp.Time).Milliseconds()/least))
		}
	}
	return out
}

// rankPodsToDelete sorts Pods, first to be deleted first, by upstream's order
// (ActivePodsWithRanks): unassigned, then Pending before Unknown before Running, then not ready,
// then lower deletion cost, then nodes with more siblings, then ready for a shorter time (by powers
// of two), then more restarts, then younger (by powers of two). Of those that were ready, or made,
// at other times within one power of two the UID decides. Where upstream leaves the choice to
// chance the UID decides too, so that equal Pods have the same order whatever order they came in.
func rankPodsToDelete(pods []*corev1.Pod, siblings map[string]int, now time.Time) []*corev1.Pod {
	byUID := func(a, b *corev1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) }
	out := slices.SortedFunc(slices.Values(pods), byUID)
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int {
		if c := cmp.Or(
			boolRank(a.Spec.NodeName != "")-boolRank(b.Spec.NodeName != ""),
			phaseRank(a)-phaseRank(b),
			boolRank(podutil.IsReady(a))-boolRank(podutil.IsReady(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			siblings[b.Spec.NodeName]-siblings[a.Spec.NodeName],
		); c != 0 {
			return c
		}
		if x, y := readySince(a), readySince(b); podutil.IsReady(a) && !x.Equal(y) {
			return cmp.Or(logarithmicRank(now.Sub(x))-logarithmicRank(now.Sub(y)), byUID(a, b))
		}
		return cmp.Or(maxRestarts(b)-maxRestarts(a),
			logarithmicRank(now.Sub(a.CreationTimestamp.Time))-logarithmicRank(now.Sub(b.CreationTimestamp.Time)),
			byUID(a, b))
	})
	return out
}

// phaseRank is the place of a Pod's phase among those that go first.
func phaseRank(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// logarithmicRank returns the binary logarithm of seconds: similar ages rank equal, so that no Pod
// is deleted for being slightly younger.
func logarithmicRank(d time.Duration) int {
	n := 0
	for s := int64(d / time.Second); s > 0; s >>= 1 {
		n++
	}
	return n
}

func deletionCost(p *corev1.Pod) int {
	var n int
	if _, err := fmt.Sscanf(p.Annotations[corev1.PodDeletionCost], "%d", &n); err != nil {
		return 0
	}
	return n
}

func maxRestarts(p *corev1.Pod) int {
	most := 0
	for _, c := range p.Status.ContainerStatuses {
		most = max(most, int(c.RestartCount))
	}
	return most
}

func readySince(p *corev1.Pod) time.Time {
	if podutil.IsReady(p) {
		return podutil.ReadyCondition(p).LastTransitionTime.Time
	}
	return p.CreationTimestamp.Time
}

// Status returns the set's status, and the time until a ready Pod becomes available.
func Status(in In, failure error) (appsv1.ReplicaSetStatus, time.Duration) {
	s := *in.Set.Status.DeepCopy()
	s.ObservedGeneration = in.Set.Generation
	live := Active(in.Pods)
	s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas = int32(len(live)), 0, 0, 0
	template := labels.Set(in.Set.Spec.Template.Labels).AsSelectorPreValidated()
	var again time.Duration
	for _, p := range live {
		if template.Matches(labels.Set(p.Labels)) {
			s.FullyLabeledReplicas++
		}
		if !podutil.IsReady(p) {
			continue
		}
		s.ReadyReplicas++
		left := podutil.UntilAvailable(p, in.Set.Spec.MinReadySeconds, in.Now)
		if in.Set.Spec.MinReadySeconds == 0 || left <= 0 {
			s.AvailableReplicas++
		} else if again == 0 || left < again {
			again = left
		}
	}
	ending := int32(0)
	for _, p := range in.Pods {
		if p.DeletionTimestamp != nil && !podutil.IsTerminal(p) {
			ending++
		}
	}
	s.TerminatingReplicas = &ending
	s.Conditions = conditions(s.Conditions, failure, len(live) > int(replicas(in.Set)), metav1.NewTime(in.Now))
	return s, again
}

func conditions(have []appsv1.ReplicaSetCondition, failure error, tooMany bool,
	now metav1.Time) []appsv1.ReplicaSetCondition {
	var out []appsv1.ReplicaSetCondition
	known := false
	for _, c := range have {
		if c.Type != appsv1.ReplicaSetReplicaFailure {
			out = append(out, c)
		} else if failure != nil {
			out, known = append(out, c), true
		}
	}
	if failure == nil || known {
		return out
	}
	reason := "FailedCreate"
	if tooMany {
		reason = "FailedDelete"
	}
	return append(out, appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
		Reason: reason, Message: failure.Error(), LastTransitionTime: now})
}
