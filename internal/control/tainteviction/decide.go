package tainteviction

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// Decision says whether and when a Pod is evicted because of NoExecute taints.
type Decision struct {
	Evict bool
	At    time.Time
	Taint corev1.Taint // the first one that evicts
}

// taintID identifies a taint of a node by key and effect, whatever its value.
type taintID struct {
	key    string
	effect corev1.TaintEffect
}

// TaintTimes is when each NoExecute taint without timeAdded of one node was first seen.
type TaintTimes map[taintID]time.Time

// isUndated reports whether a taint is NoExecute without timeAdded, as those of `kubectl taint`.
func isUndated(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && t.TimeAdded == nil
}

// HasUndatedTaint reports whether a node has a NoExecute taint without timeAdded; RecordTaints then
// also needs the node's managedFields.
func HasUndatedTaint(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, isUndated) }

// RecordTaints returns the times for a node's taints at now: those known, and now for new ones. If
// managedFields show that the taints are older, as after a restart of the controllers, that time
// counts.
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

// taintsWritten returns since when the node's list of taints is known to be unchanged: when a
// manager that owns the whole list wrote it. Zero if unknown.
func taintsWritten(n *corev1.Node) time.Time {
	var at time.Time
	for i := range n.ManagedFields {
		e := &n.ManagedFields[i]
		if e.Time == nil || e.FieldsV1 == nil || e.Subresource != "" || !ownsTaints(e.FieldsV1.Raw) {
			continue
		}
		// times have whole seconds: it was written before the next one
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

// boundAt returns since when a Pod is bound, as far as its object shows: not before its creation,
// not after now.
func boundAt(p *corev1.Pod, now time.Time) time.Time {
	if c := pod.Condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		at := c.LastTransitionTime.Time
		if !at.After(now) && at.After(p.CreationTimestamp.Time) {
			return at
		}
	}
	return p.CreationTimestamp.Time
}

// Decide compares the node's NoExecute taints with the Pod's tolerations. An untolerated taint
// evicts now; one tolerated for a time evicts that long after timeAdded, or after it was first
// seen; for a Pod that was bound later the time starts then, as upstream.
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
			since = now // the taint is not recorded yet; the caller records before it decides
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

// evictionTime returns when one taint evicts the Pod; false if a toleration without limit covers
// it, otherwise the shortest limit counts.
func evictionTime(p *corev1.Pod, t corev1.Taint, since time.Time) (time.Time, bool) {
	tolerated, shortest := toleratedFor(p, t)
	switch {
	case !tolerated:
		return since, true
	case shortest == nil:
		return time.Time{}, false
	case *shortest <= 0:
		return since, true
	default:
		// a time.Duration holds at most 292 years
		return since.Add(time.Duration(min(*shortest, int64(math.MaxInt64/time.Second))) * time.Second), true
	}
}

// toleratedFor reports whether a Pod tolerates a taint, and for how many seconds at most; nil:
// without limit.
func toleratedFor(p *corev1.Pod, t corev1.Taint) (tolerated bool, shortest *int64) {
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
	return tolerated, shortest
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
