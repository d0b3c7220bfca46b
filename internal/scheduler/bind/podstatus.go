package bind

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// StatusUpdate is a change to a Pod's status.
type StatusUpdate struct {
	Pod       *v1.Pod
	Condition v1.PodCondition // without its transition time; an empty Type says nothing
	Nominated *string         // nil leaves status.nominatedNodeName as it is
}

// PodStatusWriter patches statuses of Pods beside the scheduling cycles: one patch at a time, and
// for each Pod the newest update only. Any goroutine may call its methods.
type PodStatusWriter struct {
	Client    kubernetes.Interface
	LatestPod func(*v1.Pod) *v1.Pod // the Pod as the informer has it; nil when gone
	APICalls  frameworkruntime.APICallHooks
	Writer    APIWriter // the zero value leaves all to Client

	mu      sync.Mutex
	order   []types.UID
	pending map[types.UID]StatusUpdate
	writing types.UID     // whose write is under way; empty: nobody's
	written chan struct{} // closed when it is over
	wake    chan struct{}
}

// NewPodStatusWriter makes a writer; nothing is written until Run runs. latest gives a Pod as the
// informer has it, nil when it is gone.
func NewPodStatusWriter(client kubernetes.Interface, latest func(*v1.Pod) *v1.Pod) *PodStatusWriter {
	return &PodStatusWriter{Client: client, LatestPod: latest, pending: map[types.UID]StatusUpdate{},
		wake: make(chan struct{}, 1)}
}

// Put takes an update and does not wait. An update without a nominated node, or without a
// condition, keeps that of the update it replaces.
func (s *PodStatusWriter) Put(w StatusUpdate) {
	s.mu.Lock()
	if old, ok := s.pending[w.Pod.UID]; ok {
		if w.Nominated == nil {
			w.Nominated = old.Nominated
		}
		if w.Condition.Type == "" {
			w.Condition = old.Condition
		}
	} else {
		s.order = append(s.order, w.Pod.UID)
		s.APICalls.AddPending(frameworkruntime.CallStatusPatch, 1)
	}
	s.pending[w.Pod.UID] = w
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// WaitForWrite drops a Pod's update and waits for a write under way, until ctx ends: the status of
// an earlier attempt must not be written after the binding.
func (s *PodStatusWriter) WaitForWrite(ctx context.Context, uid types.UID) {
	s.mu.Lock()
	s.removePending(uid)
	var over chan struct{}
	if s.writing == uid {
		over = s.written
	}
	s.mu.Unlock()
	if over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

// WritesNothing drops a Pod's update as WaitForWrite does, and does not wait: false when a write is
// under way.
func (s *PodStatusWriter) WritesNothing(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removePending(uid)
	return s.writing != uid
}

// removePending drops an update; mu is held.
func (s *PodStatusWriter) removePending(uid types.UID) {
	if _, ok := s.pending[uid]; ok {
		delete(s.pending, uid)
		s.APICalls.AddPending(frameworkruntime.CallStatusPatch, -1)
	}
}

// SetNominatedNodeName writes the node that a Pod is about to be bound to into
// status.nominatedNodeName, for whoever counts the room of nodes meanwhile (KEP-5278), and waits. A
// failure is logged: the binding goes on without it.
func (s *PodStatusWriter) SetNominatedNodeName(ctx context.Context, p *v1.Pod, node string) {
	if err := s.write(ctx, StatusUpdate{Pod: p, Nominated: &node}); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to update the nominated node name in the binding cycle",
			"pod", klog.KObj(p), "nominatedNodeName", node)
	}
}

// Run writes updates until ctx ends.
func (s *PodStatusWriter) Run(ctx context.Context) {
	for {
		w, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		s.writeNow(ctx, w)
	}
}

// WritePending writes the updates that are there, for a scheduler without Run.
func (s *PodStatusWriter) WritePending(ctx context.Context) {
	for w, ok := s.next(); ok; w, ok = s.next() {
		s.writeNow(ctx, w)
	}
}

// writeNow writes an update that next returned. A failure is logged.
func (s *PodStatusWriter) writeNow(ctx context.Context, w StatusUpdate) {
	err := s.write(ctx, w)
	s.signalWritten()
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Updating pod status failed", "pod", klog.KObj(w.Pod))
	}
}

// next takes the update that has waited longest and marks its Pod as being written; false: none
// waits.
func (s *PodStatusWriter) next() (StatusUpdate, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 {
		uid := s.order[0]
		s.order = s.order[1:]
		if w, ok := s.pending[uid]; ok {
			s.removePending(uid)
			s.writing, s.written = uid, make(chan struct{})
			return w, true
		}
	}
	return StatusUpdate{}, false
}

func (s *PodStatusWriter) signalWritten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = ""
	close(s.written)
}

// write patches the status of the Pod as the cache has it. Nothing is written of a Pod that is
// gone, is another one, or has a node. A Pod that the API server no longer has is no error.
func (s *PodStatusWriter) write(ctx context.Context, w StatusUpdate) error {
	now := s.LatestPod(w.Pod)
	if now == nil || now.UID != w.Pod.UID || now.Spec.NodeName != "" {
		return nil
	}
	patch, err := patchOf(now, w)
	if err != nil || patch == nil {
		return err
	}
	began := time.Now()
	err = s.Writer.PatchStatus(ctx, s.Client, now, patch)
	if apierrors.IsNotFound(err) {
		err = nil
	}
	s.APICalls.ObserveExecuted(frameworkruntime.CallStatusPatch, err, began)
	return err
}

// conditionPatch is a condition with every field present: a null removes what the condition had
// before.
type conditionPatch struct {
	LastProbeTime      *metav1.Time        `json:"lastProbeTime"`
	LastTransitionTime metav1.Time         `json:"lastTransitionTime"`
	Message            *string             `json:"message"`
	ObservedGeneration *int64              `json:"observedGeneration"`
	Reason             *string             `json:"reason"`
	Status             v1.ConditionStatus  `json:"status"`
	Type               v1.PodConditionType `json:"type"`
}

// patchOf is the strategic merge patch that brings p to the update; nil when it is there already.
// It is built by hand: a patch from the difference of two whole statuses costs more than the rest
// of a write.
func patchOf(p *v1.Pod, w StatusUpdate) ([]byte, error) {
	status := map[string]any{}
	if w.Nominated != nil && *w.Nominated != p.Status.NominatedNodeName {
		status["nominatedNodeName"] = orNull(*w.Nominated)
	}
	if w.Condition.Type != "" {
		now := v1.PodStatus{Conditions: slices.Clone(p.Status.Conditions)}
		SetCondition(&now, w.Condition)
		if !slices.Equal(now.Conditions, p.Status.Conditions) {
			c := now.Conditions[slices.IndexFunc(now.Conditions,
				func(c v1.PodCondition) bool { return c.Type == w.Condition.Type })]
			status["conditions"] = []conditionPatch{{LastTransitionTime: c.LastTransitionTime,
				Message: orNull(c.Message), ObservedGeneration: orNull(c.ObservedGeneration), Reason: orNull(c.Reason),
				Status: c.Status, Type: c.Type}}
			order := make([]map[string]v1.PodConditionType, len(now.Conditions))
			for i := range order {
				order[i] = map[string]v1.PodConditionType{"type": now.Conditions[i].Type}
			}
			status["$setElementOrder/conditions"] = order
		}
	}
	if len(status) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]types.UID{"uid": p.UID}, "status": status})
	if err != nil {
		return nil, fmt.Errorf("status of Pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return patch, nil
}

// orNull is nil for a zero value, which removes a field.
func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// SetCondition sets a condition of a status. Its transition time is now unless its status stays as
// it was.
func SetCondition(status *v1.PodStatus, c v1.PodCondition) {
	c.LastTransitionTime = metav1.Now()
	for i := range status.Conditions {
		old := &status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}
