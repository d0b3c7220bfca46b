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

// watch registers for nodes and Pods, and for the other resources whose events plugins asked for.
func (s *Scheduler) watch() error {
	core, storage := s.Informers.Core().V1(), s.Informers.Storage().V1()
	if err := s.observe(core.Nodes().Informer(), s.nodeChanged); err != nil {
		return err
	}
	if err := s.observe(core.Pods().Informer(), s.podChanged); err != nil {
		return err
	}
	if err := s.watchDevices(); err != nil {
		return err
	}
	if err := s.watchGangs(); err != nil {
		return err
	}
	others := map[framework.EventResource]func() cache.SharedIndexInformer{
		framework.PersistentVolume:      func() cache.SharedIndexInformer { return core.PersistentVolumes().Informer() },
		framework.PersistentVolumeClaim: func() cache.SharedIndexInformer { return core.PersistentVolumeClaims().Informer() },
		framework.StorageClass:          func() cache.SharedIndexInformer { return storage.StorageClasses().Informer() },
		framework.CSINode:               func() cache.SharedIndexInformer { return storage.CSINodes().Informer() },
		framework.CSIDriver:             func() cache.SharedIndexInformer { return storage.CSIDrivers().Informer() },
		framework.CSIStorageCapacity:    func() cache.SharedIndexInformer { return storage.CSIStorageCapacities().Informer() },
		framework.VolumeAttachment:      func() cache.SharedIndexInformer { return storage.VolumeAttachments().Informer() },
	}
	for _, p := range s.profiles {
		for _, h := range p.Hints {
			if gvr, ok := customResource(h.Event.Resource); ok {
				if err := s.custom.watch(gvr, s.otherChanged(h.Event.Resource)); err != nil {
					return fmt.Errorf("plugin %s: %w", h.Plugin, err)
				}
				continue
			}
			informer := others[h.Event.Resource]
			if informer == nil {
				continue
			}
			delete(others, h.Event.Resource)
			if err := s.observe(informer(), s.otherChanged(h.Event.Resource)); err != nil {
				return err
			}
		}
	}
	return nil
}

// observe calls changed with the object before (nil: added) and after (nil: deleted).
func (s *Scheduler) observe(informer cache.SharedIndexInformer, changed func(before, after any)) error {
	reg, err := informer.AddEventHandler(calls(changed))
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	s.synced = append(s.synced, reg.HasSynced)
	return nil
}

func calls(changed func(before, after any)) cache.ResourceEventHandlerFuncs {
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

// happened wakes whom an event may help; mu is held.
func (s *Scheduler) happened(e framework.ClusterEvent, before, after any) {
	began := time.Now()
	s.tell(s.queue.Happened(queue.Event{ClusterEvent: e, Old: before, New: after}, began))
	s.meter.handled(e, began)
}

func (s *Scheduler) otherChanged(r framework.EventResource) func(before, after any) {
	return func(before, after any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.happened(framework.ClusterEvent{Resource: r, ActionType: action(before, after)}, before, after)
	}
}

func action(before, after any) framework.ActionType {
	switch {
	case before == nil:
		return framework.Add
	case after == nil:
		return framework.Delete
	}
	return framework.Update
}

func (s *Scheduler) nodeChanged(before, after any) {
	s.meter.heard("nodes")
	was, had := before.(*v1.Node)
	is, has := after.(*v1.Node)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case has && !had:
		s.world.SetNode(is)
		s.happened(framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}, nil, is)
	case has:
		s.world.SetNode(is)
		for _, e := range queue.NodeChange(was, is) {
			s.happened(e, was, is)
		}
	case had:
		s.world.RemoveNode(was.Name)
		s.happened(framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Delete}, was, nil)
	}
}

// stage is what a version of a Pod is to the scheduler.
type stage int

const (
	nothing  stage = iota // absent, ended, or another scheduler's
	wanting               // wants a node from one of our profiles
	standing              // is on a node
)

func (s *Scheduler) stageOf(obj any) (*v1.Pod, stage) {
	p, ok := obj.(*v1.Pod)
	switch {
	case !ok || pod.IsTerminal(p):
		return p, nothing
	case p.Spec.NodeName != "":
		return p, standing
	case s.profiles[p.Spec.SchedulerName] != nil:
		return p, wanting
	}
	return p, nothing
}

func (s *Scheduler) podChanged(before, after any) {
	s.meter.heard("pods")
	was, from := s.stageOf(before)
	is, to := s.stageOf(after)
	if was != nil && is != nil && was.UID != is.UID { // deleted and made anew between two looks
		s.podChanged(before, nil)
		s.podChanged(nil, after)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.gangs.follow(was, is, to)
	if from == wanting && to != wanting {
		s.leaves(was, to)
	}
	if from == standing && to != standing {
		s.world.RemovePod(was.UID)
		s.happened(framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Delete}, was, nil)
	}
	switch {
	case to == wanting:
		if !s.world.Assumed(is.UID) { // else it is being bound, and what changed is our own doing
			if is.Status.NominatedNodeName != "" || s.nominated.Of(is.UID) != "" {
				info, _ := snapshot.NewPodInfo(is)
				s.nominated.Update(was, info)
			}
			s.tell(s.queue.Update(was, is, now))
			if from == wanting {
				s.updated(framework.UnscheduledPod, queue.PodChange(framework.UnscheduledPod, was, is), now)
			}
			if was == nil {
				s.happened(framework.ClusterEvent{Resource: framework.UnscheduledPod, ActionType: framework.Add}, nil, is)
			}
		}
	case to == standing && from != standing:
		s.world.SetPod(is)
		s.happened(framework.ClusterEvent{Resource: framework.AssignedPod, ActionType: framework.Add}, nil, is)
	case to == standing:
		s.world.SetPod(is)
		kinds := queue.PodChange(framework.AssignedPod, was, is)
		for _, e := range kinds {
			s.happened(e, was, is)
		}
		if len(kinds) == 0 {
			s.updated(framework.AssignedPod, nil, now)
		}
	}
}

// updated counts a Pod's update that is no event to anybody, or that the queue has taken in.
func (s *Scheduler) updated(r framework.EventResource, kinds []framework.ClusterEvent, began time.Time) {
	if len(kinds) == 0 {
		kinds = []framework.ClusterEvent{{Resource: r, ActionType: framework.Update}}
	}
	for _, e := range kinds {
		s.meter.handled(e, began)
	}
}

// leaves forgets a Pod that no longer wants a node: it was bound, deleted, or ended.
func (s *Scheduler) leaves(was *v1.Pod, to stage) {
	defer s.meter.handled(framework.ClusterEvent{Resource: framework.UnscheduledPod, ActionType: framework.Delete}, time.Now())
	s.queue.Delete(was.UID)
	nominated := s.nominated.Of(was.UID) != ""
	s.nominated.Drop(was.UID)
	if to == standing {
		return
	}
	if w := s.waiting.Find(was.UID); w != nil {
		w.Reject("", "the Pod was deleted")
	} else if nominated {
		s.happened(framework.ClusterEvent{Resource: framework.UnscheduledPod, ActionType: framework.Delete}, was, nil)
	}
}
