package taintevict

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Verdict says whether and when a Pod must leave its node because of NoExecute taints.
type Verdict struct {
	Leave bool
	At    time.Time
	Taint corev1.Taint // the one that asks first
}

// Judge compares the node's NoExecute taints with the Pod's tolerations. A taint that is not tolerated asks to leave now; one that is tolerated
// for a time asks to leave that long after the taint was added. now stands in for a taint without a time.
func Judge(p *corev1.Pod, taints []corev1.Taint, now time.Time) Verdict {
	var v Verdict
	for _, t := range taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		since := now
		if t.TimeAdded != nil {
			since = t.TimeAdded.Time
		}
		at, leaves := leaveAt(p, t, since)
		if leaves && (!v.Leave || at.Before(v.At)) {
			v = Verdict{Leave: true, At: at, Taint: t}
		}
	}
	return v
}

// leaveAt is when one taint drives the Pod out: never when a toleration without time limit covers it, else the shortest limit counts.
func leaveAt(p *corev1.Pod, t corev1.Taint, since time.Time) (time.Time, bool) {
	tolerated := false
	var shortest *int64
	for i := range p.Spec.Tolerations {
		tol := &p.Spec.Tolerations[i]
		if !tolerates(tol, &t) {
			continue
		}
		tolerated = true
		if s := tol.TolerationSeconds; s != nil && (shortest == nil || *s < *shortest) {
			shortest = s
		}
	}
	switch {
	case !tolerated:
		return since, true
	case shortest == nil:
		return time.Time{}, false
	case *shortest <= 0:
		return since, true
	default:
		return since.Add(time.Duration(min(*shortest, int64(math.MaxInt64/time.Second))) * time.Second), true // 292 years at most: a time.Duration has room for no more
	}
}

func tolerates(tol *corev1.Toleration, t *corev1.Taint) bool {
	if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
		return false
	}
	switch tol.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return tol.Key != "" && tol.Value == t.Value
	}
	return false
}
