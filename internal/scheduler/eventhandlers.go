package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// eventHandlers feed the cache and the queue with what informers tell. Each informer calls its
// handlers from a goroutine of its own.
type eventHandlers struct {
	informers   informers.SharedInformerFactory
	profiles    map[string]*frameworkruntime.Profile // by scheduler name
	state       *cacheAndQueue
	waitingPods *frameworkruntime.WaitingPods
	custom      *customResources
	devices     *devices
	metrics     *metrics.Metrics

	synced []cache.InformerSynced // of the informers that have handlers
	listed atomic.Bool            // nodes and Pods have been listed
}

func newEventHandlers(w *wiring) *eventHandlers {
	return &eventHandlers{informers: w.o.Informers, profiles: w.profiles, state: w.state, waitingPods: w.waitingPods,
		custom: w.custom, devices: w.devices, metrics: w.metrics}
}

// start starts the informers and waits until what they list has been handled; false: ctx ended
// before.
func (s *eventHandlers) start(ctx context.Context) bool {
	s.informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return false
	}
	s.informers.WaitForCacheSync(ctx.Done()) // those that plugins look up and get no events of
	s.custom.start(ctx)
	s.listed.Store(true)
	return true
}

// stop ends what start's ctx does not end.
func (s *eventHandlers) stop() { s.devices.stop() }

// ready tells whether start has returned true.
func (s *eventHandlers) ready() bool { return s.listed.Load() }

// addAll registers handlers for nodes and Pods, and for the other resources whose events plugins
// registered for (EventsToRegister). It is called once, before start.
func (s *eventHandlers) addAll() error {
	core, storage := s.informers.Core().V1(), s.informers.Storage().V1()
	if err := s.add(core.Nodes().Informer(), s.nodeChanged); err != nil {
		return err
	}
	if err := s.add(core.Pods().Informer(), s.podChanged); err != nil {
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
			if err := s.add(informer(), s.handlerFor(h.Event.Resource)); err != nil {
				return err
			}
		}
	}
	return nil
}

// add has changed called with an object before (nil: added) and after (nil: deleted) each change.
func (s *eventHandlers) add(informer cache.SharedIndexInformer, changed func(before, after any)) error {
	reg, err := informer.AddEventHandler(eventHandlerFuncs(changed))
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	s.synced = append(s.synced, reg.HasSynced)
	return nil
}

// eventHandlerFuncs calls changed for every event: before is nil for an addition, after for a
// deletion.
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

// handlerFor moves the Pods that a change of a resource may help, and does nothing else.
func (s *eventHandlers) handlerFor(r framework.EventResource) func(before, after any) {
	return func(before, after any) {
		s.state.mu.Lock()
		defer s.state.mu.Unlock()
		s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: r, ActionType: actionOf(before, after)},
			before, after)
	}
}

// actionOf is the action type of an event by which of both objects there are.
func actionOf(before, after any) framework.ActionType {
	switch {
	case before == nil:
		return framework.Add
	case after == nil:
		return framework.Delete
	}
	return framework.Update
}

// nodeChanged updates the cache with a Node and moves the Pods that the change may help.
func (s *eventHandlers) nodeChanged(before, after any) {
	s.metrics.Cluster.SetLastEvent("nodes")
	was, had := before.(*v1.Node)
	is, has := after.(*v1.Node)
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	switch {
	case has && !had:
		s.state.cache.SetNode(is)
		s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.Node,
			ActionType: framework.Add},
			nil, is)
	case has:
		s.state.cache.SetNode(is)
		for _, e := range queue.NodeSchedulingPropertiesChange(was, is) {
			s.state.moveAllToActiveOrBackoffQueue(e, was, is)
		}
	case had:
		s.state.cache.RemoveNode(was.Name)
		s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.Node,
			ActionType: framework.Delete},
			was, nil)
	}
}

// podStage is what a version of a Pod is to the scheduler.
type podStage int

const (
	notOurs     podStage = iota // absent, ended, or another scheduler's
	unscheduled                 // waits for a node from one of our profiles
	assigned                    // is on a node
)

// podStageOf is the Pod in obj and its stage; nil and notOurs if obj is no Pod.
func (s *eventHandlers) podStageOf(obj any) (*v1.Pod, podStage) {
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

// podChanged updates cache, queue and nominator with a Pod and moves the Pods that the change may
// help.
func (s *eventHandlers) podChanged(before, after any) {
	s.metrics.Cluster.SetLastEvent("pods")
	was, from := s.podStageOf(before)
	is, to := s.podStageOf(after)
	if was != nil && is != nil && was.UID != is.UID { // deleted and created again between two events
		s.podChanged(before, nil)
		s.podChanged(nil, after)
		return
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	now := s.state.now()
	s.state.podGroups.podChanged(was, is, to)
	if from == unscheduled && to != unscheduled {
		s.removeFromQueue(was, to)
	}
	if from == assigned && to != assigned {
		s.state.cache.RemovePod(was.UID)
		s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.AssignedPod,
			ActionType: framework.Delete}, was, nil)
	}
	switch {
	case to == unscheduled:
		if !s.state.cache.IsAssumedPod(is.UID) { // else it is being bound, and what changed is our own doing
			if is.Status.NominatedNodeName != "" || s.state.nominator.NominatedNodeName(is.UID) != "" {
				info, _ := snapshot.NewPodInfo(is)
				s.state.nominator.UpdateNominatedPod(was, info)
			}
			s.state.recordMoves(s.state.queue.Update(was, is, now))
			if from == unscheduled {
				s.observeUnusedUpdate(framework.UnscheduledPod,
					queue.PodSchedulingPropertiesChange(framework.UnscheduledPod, was, is), now)
			}
			if was == nil {
				s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.UnscheduledPod,
					ActionType: framework.Add}, nil, is)
			}
		}
	case to == assigned && from != assigned:
		s.state.cache.SetPod(is)
		s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.AssignedPod,
			ActionType: framework.Add}, nil, is)
	case to == assigned:
		s.state.cache.SetPod(is)
		kinds := queue.PodSchedulingPropertiesChange(framework.AssignedPod, was, is)
		for _, e := range kinds {
			s.state.moveAllToActiveOrBackoffQueue(e, was, is)
		}
		if len(kinds) == 0 {
			s.observeUnusedUpdate(framework.AssignedPod, nil, now)
		}
	}
}

// observeUnusedUpdate counts a Pod's update that moves no Pod, or that the queue itself took in.
func (s *eventHandlers) observeUnusedUpdate(r framework.EventResource, kinds []framework.ClusterEvent,
	began time.Time) {
	if len(kinds) == 0 {
		kinds = []framework.ClusterEvent{{Resource: r, ActionType: framework.Update}}
	}
	for _, e := range kinds {
		s.metrics.Events.Observe(e, began)
	}
}

// removeFromQueue takes a Pod out of the queue that no longer waits for a node: it was bound,
// deleted, or ended. mu is held.
func (s *eventHandlers) removeFromQueue(was *v1.Pod, to podStage) {
	defer s.metrics.Events.Observe(framework.ClusterEvent{Resource: framework.UnscheduledPod,
		ActionType: framework.Delete}, time.Now())
	s.state.queue.Delete(was.UID)
	nominated := s.state.nominator.NominatedNodeName(was.UID) != ""
	s.state.nominator.DeleteNominatedPodIfExists(was.UID)
	if to == assigned {
		return
	}
	if w := s.waitingPods.Get(was.UID); w != nil {
		w.Reject("", "the Pod was deleted")
	} else if nominated {
		s.state.moveAllToActiveOrBackoffQueue(framework.ClusterEvent{Resource: framework.UnscheduledPod,
			ActionType: framework.Delete}, was, nil)
	}
}
