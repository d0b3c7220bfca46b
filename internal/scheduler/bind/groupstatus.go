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

// GroupStatuses writes conditions of PodGroups beside the scheduling cycles: one write at a time, and of several conditions of a group the newest.
type GroupStatuses struct {
	client kubernetes.Interface
	groups schedulinglisters.PodGroupLister

	mu    sync.Mutex
	order []types.UID
	want  map[types.UID]groupWish
	done  map[types.UID]bool // told that it is scheduled, which is for good
	bell  chan struct{}
}

type groupWish struct {
	namespace, name string
	uid             types.UID
	condition       metav1.Condition
}

// NewGroupStatuses makes a writer; Run must run for anything to be written.
func NewGroupStatuses(client kubernetes.Interface, groups schedulinglisters.PodGroupLister) *GroupStatuses {
	return &GroupStatuses{client: client, groups: groups, want: map[types.UID]groupWish{}, done: map[types.UID]bool{}, bell: make(chan struct{}, 1)}
}

// Put takes a condition. One that was True stays so, whatever becomes of further Pods of the group.
func (s *GroupStatuses) Put(g *schedulingv1beta1.PodGroup, c metav1.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done[g.UID] {
		return
	}
	if c.Status == metav1.ConditionTrue {
		s.done[g.UID] = true
	}
	if _, ok := s.want[g.UID]; !ok {
		s.order = append(s.order, g.UID)
	}
	s.want[g.UID] = groupWish{g.Namespace, g.Name, g.UID, c}
	select {
	case s.bell <- struct{}{}:
	default:
	}
}

// Forget is told of a PodGroup that is gone.
func (s *GroupStatuses) Forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.done, uid)
}

// Run writes until ctx ends.
func (s *GroupStatuses) Run(ctx context.Context) {
	for {
		w, ok := s.next()
		if !ok {
			select {
			case <-s.bell:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := s.write(ctx, w); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "Failed to update PodGroup status", "podGroup", klog.KRef(w.namespace, w.name))
		}
	}
}

func (s *GroupStatuses) next() (groupWish, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return groupWish{}, false
	}
	w := s.want[s.order[0]]
	delete(s.want, s.order[0])
	s.order = s.order[1:]
	return w, true
}

func (s *GroupStatuses) write(ctx context.Context, w groupWish) error {
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
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": w.uid}, "status": map[string]any{"conditions": []metav1.Condition{c}}})
	if err != nil {
		return err
	}
	_, err = s.client.SchedulingV1beta1().PodGroups(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
