package bind

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"
	"k8s.io/klog/v2"
)

// PodGroupStatusWriter writes conditions of PodGroups beside the scheduling cycles: one write at a
// time, and for each group the newest condition only. Any goroutine may call its methods.
type PodGroupStatusWriter struct {
	client kubernetes.Interface
	groups schedulinglisters.PodGroupLister

	mu        sync.Mutex
	order     []types.UID
	pending   map[types.UID]podGroupStatusUpdate
	scheduled map[types.UID]bool // Put said that it is scheduled, which is final
	wake      chan struct{}
}

// podGroupStatusUpdate is a condition to be written; a group of another uid is left alone.
type podGroupStatusUpdate struct {
	namespace, name string
	uid             types.UID
	condition       metav1.Condition
}

// NewPodGroupStatusWriter makes a writer; nothing is written until Run runs.
func NewPodGroupStatusWriter(client kubernetes.Interface,
	groups schedulinglisters.PodGroupLister) *PodGroupStatusWriter {
	return &PodGroupStatusWriter{client: client, groups: groups, pending: map[types.UID]podGroupStatusUpdate{},
		scheduled: map[types.UID]bool{}, wake: make(chan struct{}, 1)}
}

// Put takes a condition and does not wait. One that was True stays so, whatever becomes of further
// Pods of the group.
func (s *PodGroupStatusWriter) Put(g *schedulingv1beta1.PodGroup, c metav1.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scheduled[g.UID] {
		return
	}
	if c.Status == metav1.ConditionTrue {
		s.scheduled[g.UID] = true
	}
	if _, ok := s.pending[g.UID]; !ok {
		s.order = append(s.order, g.UID)
	}
	s.pending[g.UID] = podGroupStatusUpdate{g.Namespace, g.Name, g.UID, c}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Delete forgets a PodGroup that is gone.
func (s *PodGroupStatusWriter) Delete(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.scheduled, uid)
}

// Run writes until ctx ends.
func (s *PodGroupStatusWriter) Run(ctx context.Context) {
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

// WritePending writes the conditions that are there, for a scheduler without Run.
func (s *PodGroupStatusWriter) WritePending(ctx context.Context) {
	for w, ok := s.next(); ok; w, ok = s.next() {
		s.writeNow(ctx, w)
	}
}

// writeNow writes a condition that next returned. A failure is logged.
func (s *PodGroupStatusWriter) writeNow(ctx context.Context, w podGroupStatusUpdate) {
	if err := s.write(ctx, w); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "Failed to update PodGroup status", "podGroup", klog.KRef(w.namespace, w.name))
	}
}

// next takes the condition that has waited longest; false: none waits.
func (s *PodGroupStatusWriter) next() (podGroupStatusUpdate, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return podGroupStatusUpdate{}, false
	}
	w := s.pending[s.order[0]]
	delete(s.pending, s.order[0])
	s.order = s.order[1:]
	return w, true
}

// write patches a group's condition. It writes nothing if the group is another or gone from the
// cache, has the condition already, or has it as True, which is final.
func (s *PodGroupStatusWriter) write(ctx context.Context, w podGroupStatusUpdate) error {
	g, err := s.groups.PodGroups(w.namespace).Get(w.name)
	if err != nil || g.UID != w.uid {
		return err
	}
	c := w.condition
	c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
	if old := meta.FindStatusCondition(g.Status.Conditions, c.Type); old != nil {
		if old.Status == metav1.ConditionTrue {
			return nil
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if *old == c {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": w.uid},
		"status": map[string]any{"conditions": []metav1.Condition{c}}})
	if err != nil {
		return err
	}
	_, err = s.client.SchedulingV1beta1().PodGroups(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType,
		patch, metav1.PatchOptions{}, "status")
	return err
}
