package tainteviction

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Decision says whether and when a Pod must leave its node because of NoExecute taints.
type Decision struct {
	Evict bool
	At    time.Time
	Taint corev1.Taint // the one that asks first
}

// taintID names a taint of a node: there is one of a key and an effect, and another value keeps its
// place.
type taintID struct {
	key    string
	effect corev1.TaintEffect
}

// TaintTimes is when each NoExecute taint of one node that does not tell its time was first seen.
type TaintTimes map[taintID]time.Time

// isUndated tells whether a taint drives Pods out and does not tell since when, as those of
// `kubectl taint`.
func isUndated(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && t.TimeAdded == nil
}

// HasUndatedTaint tells whether a node has a NoExecute taint without timeAdded; RecordTaints then
// wants the node's managedFields too.
func HasUndatedTaint(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, isUndated) }

// RecordTaints returns what is known of a node's taints at now: what was known of those that are
// still there, and new ones from now on. Where managedFields tell that the taints have stood
// unchanged for longer, as after a restart of the controllers, that counts.
func RecordTaints(n *corev1.Node, known TaintTimes, now time.Time) TaintTimes {
	out := TaintTimes{}
	written := taintsWritten(n)
	for _, t := range n.Spec.Taints {
		if !isUndated(t) {
			continue
		}
		at, ok := known[taintID{t.Key, t.Effect}]
		if !ok {
			at = now
		}
		if !written.IsZero() && written.Before(at) {
			at = written
		}
		out[taintID{t.Key, t.Effect}] = at
	}
	return out
}

// taintsWritten is since when the node's list of taints is known to stand as it does: a manager
// that owns the list wrote it then, and nobody has changed it since, who would own it now. Zero
// when nobody tells.
func taintsWritten(n *corev1.Node) time.Time {
	var at time.Time
	for i := range n.ManagedFields {
		e := &n.ManagedFields[i]
		if e.Time == nil || e.FieldsV1 == nil || e.Subresource != "" || !ownsTaints(e.FieldsV1.Raw) {
			continue
		}
		// objects tell whole seconds: it was written before the next
		if whole := e.Time.Time.Add(time.Second); at.IsZero() || whole.Before(at) {
			at = whole
		}
	}
	return at
}

func ownsTaints(fields []byte) bool {
	var f struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	return json.Unmarshal(fields, &f) == nil && f.Spec["f:taints"] != nil
}

// boundAt is since when a Pod is on its node, as far as its object tells: never before it was made,
// never after now.
func boundAt(p *corev1.Pod, now time.Time) time.Time {
	for _, c := range p.Status.Conditions {
		if at := c.LastTransitionTime.Time; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue &&
			!at.After(now) && at.After(p.CreationTimestamp.Time) {
			return at
		}
	}
	return p.CreationTimestamp.Time
}

// Decide compares the node's NoExecute taints with the Pod's tolerations. A taint that is not
// tolerated asks to leave now; one that is tolerated for a time asks to leave that long after the
// taint was added, or after it was first seen where it does not tell; a Pod that was bound later
// has its time from then on, as upstream gives it.
func Decide(p *corev1.Pod, taints []corev1.Taint, seen TaintTimes, now time.Time) Decision {
	var v Decision
	bound := boundAt(p, now)
	for _, t := range taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		since, known := seen[taintID{t.Key, t.Effect}]
		if t.TimeAdded != nil {
			since = t.TimeAdded.Time
		} else if !known {
			since = now // its node was not noted yet; whoever asks notes it first
		}
		if bound.After(since) {
			since = bound
		}
		at, leaves := evictionTime(p, t, since)
		if leaves && (!v.Evict || at.Before(v.At)) {
			v = Decision{Evict: true, At: at, Taint: t}
		}
	}
	return v
}

// evictionTime is when one taint drives the Pod out: never when a toleration without time limit
// covers it, else the shortest limit counts.
func evictionTime(p *corev1.Pod, t corev1.Taint, since time.Time) (time.Time, bool) {
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
		// 292 years at most: a time.Duration has room for no more
		return since.Add(time.Duration(min(*shortest, int64(math.MaxInt64/time.Second))) * time.Second), true
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
