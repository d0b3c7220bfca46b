package memstore

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/pod"
)

// stampNew gives a new object its UID and creation time. mu is held.
func (s *Store) stampNew(key string, o runtime.Object) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	m.SetUID(s.newUID(key))
	m.SetCreationTimestamp(s.second())
	m.SetManagedFields(nil)
	return nil
}

// second is the clock's time as metadata has it.
func (s *Store) second() metav1.Time { return metav1.NewTime(s.now().Truncate(time.Second)) }

// stampChanged gives the clock's time to what became true with this write: the deletion, and the
// transitions of a Pod's or node's conditions. mu is held.
func (s *Store) stampChanged(old, o runtime.Object) {
	was, err := meta.Accessor(old)
	if err != nil {
		return
	}
	is, err := meta.Accessor(o)
	if err != nil {
		return
	}
	is.SetManagedFields(nil)
	if was.GetDeletionTimestamp() == nil && is.GetDeletionTimestamp() != nil {
		at := s.second()
		if grace := is.GetDeletionGracePeriodSeconds(); grace != nil {
			at = metav1.NewTime(at.Add(time.Duration(*grace) * time.Second))
		}
		is.SetDeletionTimestamp(&at)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		s.stampPod(old.(*corev1.Pod), o)
	case *policyv1.PodDisruptionBudget:
		before := old.(*policyv1.PodDisruptionBudget).Status.DisruptedPods
		for name := range o.Status.DisruptedPods {
			if _, known := before[name]; !known {
				o.Status.DisruptedPods[name] = s.second()
			}
		}
	}
}

func (s *Store) stampPod(old, p *corev1.Pod) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		before := pod.Condition(old, c.Type)
		switch {
		case before == nil || before.Status != c.Status:
			c.LastTransitionTime = s.second()
		default:
			c.LastTransitionTime = before.LastTransitionTime
		}
	}
}
