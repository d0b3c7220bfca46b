package scheduler

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// addAllEventHandlers registers for nodes and Pods, and for the other resources whose events
// plugins asked for.
func (s *Scheduler) addAllEventHandlers() error {
	core, storage := s.Informers.Core().V1(), s.Informers.Storage().V1()
	if err := s.addEventHandler(core.Nodes().Informer(), s.nodeChanged); err != nil {
		return err
	}
	if err := s.addEventHandler(core.Pods().Informer(), s.podChanged); err != nil {
		return err
	}
	if err := s.watchDevices(); err != nil {
		return err
	}
	if err := s.watchPodGroups(); err != nil {
		return err
	}
	others := map[framework.EventResource]func() cache.SharedIndexInformer{
		framework.PersistentVolume: func() cache.SharedIndexInformer {
			return core.PersistentVolumes().Informer()
		},
		framework.PersistentVolumeClaim: func() cache.SharedIndexInformer {
			return core.PersistentVolumeClaims().Informer()
		},
		framework.StorageClass: func() cache.SharedIndexInformer { return storage.StorageClasses().Informer() },
		framework.CSINode:      func() cache.SharedIndexInformer { return storage.CSINodes().Informer() },
		framework.CSIDriver:    func() cache.SharedIndexInformer { return storage.CSIDrivers().Informer() },
		framework.CSIStorageCapacity: func() cache.SharedIndexInformer {
			return storage.CSIStorageCapacities().Informer()
		},
		framework.VolumeAttachment: func() cache.SharedIndexInformer { return storage.VolumeAttachments().Informer() },
	}
	for _, p := range s.profiles {
		for _, h := range p.QueueingHints {
			if gvr, ok := customResource(h.Event.Resource); ok {
				if err := s.custom.watch(gvr, s.handlerFor(h.Event.Resource)); err != nil {
					return fmt.Errorf("plugin %s: %w", h.Plugin, err)
				}
				continue
			}
			informer := others[h.Event.Resource]
			if informer == nil {
				continue
			}
			delete(others, h.Event.Resource)
			if err := s.addEventHandler(informer(), s.handlerFor(h.Event.Resource)); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEventHandler calls changed with the object before (nil: added) and after (nil: deleted).
func (s *Scheduler) addEventHandler(informer cache.SharedIndexInformer, changed func(before, after any)) error {
	reg, err := informer.AddEventHandler(eventHandlerFuncs(changed))
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	s.synced = append(s.synced, reg.HasSynced)
	return nil
}

func eventHandlerFuncs(changed func(before, after any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			changed(obj, nil)
		},
	}
}

// moveAllToActiveOrBackoffQueue wakes whom an event may help; mu is held.
func (s *Scheduler) moveAllToActiveOrBackoffQueue(e framework.ClusterEvent, before, after any) {
	began := time.Now()
	s.recordMoves(s.queue.MoveAllToActiveOrBackoffQueue(queue.Event{ClusterEvent: e, Old: before, New: after}, began))
	s.metrics.observeEvent(e, began)
}

func (s *Scheduler) handlerFor(r framework.EventResource) func(before, after any) {
	return func(before, after any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: r, ActionType: actionOf(before, after)},
			before, after)
	}
}

func actionOf(before, after any) framework.ActionType {
	switch {
	case before == nil:
		return framework.Add
	case after == nil:
		return framework.Delete
	}
	return framework.Update
}

func (s *Scheduler) nodeChanged(before, after any) {
	s.metrics.setLastEvent("nodes")
	was, had := before.(*v1.Node)
	is, has := after.(*v1.Node)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case has && !had:
		s.cache.SetNode(is)
		s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add},
			nil, is)
	case has:
		s.cache.SetNode(is)
		for _, e := range queue.NodeSchedulingPropertiesChange(was, is) {
			s.moveAllToActiveOrBackoffQueue(e, was, is)
		}
	case had:
		s.cache.RemoveNode(was.Name)
		s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Delete},
			was, nil)
	}
}

// podStage is what a version of a Pod is to the scheduler.
type podStage int

const (
	notOurs     podStage = iota // absent, ended, or another scheduler's
	unscheduled                 // wants a node from one of our profiles
	assigned                    // is on a node
)

func (s *Scheduler) podStageOf(obj any) (*v1.Pod, podStage) {
	p, ok := obj.(*v1.Pod)
	switch {
	case !ok || pod.IsTerminal(p):
		return p, notOurs
	case p.Spec.NodeName != "":
		return p, assigned
	case s.profiles[p.Spec.SchedulerName] != nil:
		return p, unscheduled
	}
	return p, notOurs
}

func (s *Scheduler) podChanged(before, after any) {
	s.metrics.setLastEvent("pods")
	was, from := s.podStageOf(before)
	is, to := s.podStageOf(after)
	if was != nil && is != nil && was.UID != is.UID { // deleted and made anew between two looks
		s.podChanged(before, nil)
		s.podChanged(nil, after)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.podGroups.podChanged(was, is, to)
	if from == unscheduled && to != unscheduled {
		s.removeFromQueue(was, to)
	}
	if from == assigned && to != assigned {
		s.cache.RemovePod(was.UID)
		s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.AssignedPod,
			ActionType: framework.Delete}, was, nil)
	}
	switch {
	case to == unscheduled:
		if !s.cache.IsAssumedPod(is.UID) { // else it is being bound, and what changed is our own doing
			if is.Status.NominatedNodeName != "" || s.nominator.NominatedNodeName(is.UID) != "" {
				info, _ := snapshot.NewPodInfo(is)
				s.nominator.UpdateNominatedPod(was, info)
			}
			s.recordMoves(s.queue.Update(was, is, now))
			if from == unscheduled {
				s.observeUnusedUpdate(framework.UnscheduledPod,
					queue.PodSchedulingPropertiesChange(framework.UnscheduledPod, was, is), now)
			}
			if was == nil {
				s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.UnscheduledPod,
					ActionType: framework.Add}, nil, is)
			}
		}
	case to == assigned && from != assigned:
		s.cache.SetPod(is)
		s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.AssignedPod,
			ActionType: framework.Add}, nil, is)
	case to == assigned:
		s.cache.SetPod(is)
		kinds := queue.PodSchedulingPropertiesChange(framework.AssignedPod, was, is)
		for _, e := range kinds {
			s.moveAllToActiveOrBackoffQueue(e, was, is)
		}
		if len(kinds) == 0 {
			s.observeUnusedUpdate(framework.AssignedPod, nil, now)
		}
	}
}

// observeUnusedUpdate counts a Pod's update that is no event to anybody, or that the queue has
// taken in.
func (s *Scheduler) observeUnusedUpdate(r framework.EventResource, kinds []framework.ClusterEvent, began time.Time) {
	if len(kinds) == 0 {
		kinds = []framework.ClusterEvent{{Resource: r, ActionType: framework.Update}}
	}
	for _, e := range kinds {
		s.metrics.observeEvent(e, began)
	}
}

// removeFromQueue forgets a Pod that no longer wants a node: it was bound, deleted, or ended.
func (s *Scheduler) removeFromQueue(was *v1.Pod, to podStage) {
	defer s.metrics.observeEvent(framework.ClusterEvent{Resource: framework.UnscheduledPod,
		ActionType: framework.Delete}, time.Now())
	s.queue.Delete(was.UID)
	nominated := s.nominator.NominatedNodeName(was.UID) != ""
	s.nominator.DeleteNominatedPodIfExists(was.UID)
	if to == assigned {
		return
	}
	if w := s.waitingPods.Get(was.UID); w != nil {
		w.Reject("", "the Pod was deleted")
	} else if nominated {
		s.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.UnscheduledPod,
			ActionType: framework.Delete}, was, nil)
	}
}
