package bind

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// pendingEviction is a preemption that is decided and whose victims are to be evicted.
type pendingEviction struct {
	preemptor        *v1.Pod
	podGroup         bool // the preemptor is one Pod of a PodGroup
	node             string
	victims          []*v1.Pod
	reports          []journal.Preempted // one per victim
	nominatedToClear []*v1.Pod           // Pods of lower priority that were nominated to the node
}

// evict starts to evict the victims, beside the next cycles. A victim that is terminating needs no
// further call; if all are, nothing is done: their end moves the preemptor.
func (p *defaultPreemption) evict(ctx context.Context, eviction pendingEviction) {
	if eviction = eviction.withoutTerminating(); len(eviction.victims) == 0 {
		return
	}
	p.pendingEvictions.begin(eviction.preemptor.UID, time.Now())
	p.handle.Go(func() { p.prepareCandidate(ctx, eviction) })
}

// withoutTerminating is the eviction of those victims that nobody has deleted yet.
func (e pendingEviction) withoutTerminating() pendingEviction {
	victims, reports := e.victims, e.reports
	e.victims, e.reports = nil, nil
	for i, v := range victims {
		if v.DeletionTimestamp == nil {
			e.victims, e.reports = append(e.victims, v), append(e.reports, reports[i])
		}
	}
	return e
}

// prepareCandidate evicts the victims, one at least. The last one is evicted alone: its end moves
// the preemptor.
func (p *defaultPreemption) prepareCandidate(ctx context.Context, eviction pendingEviction) {
	began := time.Now()
	last := len(eviction.victims) - 1
	errs := make([]error, len(eviction.victims)+1)
	var wg sync.WaitGroup
	wg.Go(func() { errs[last+1] = p.clearNominatedNodeNames(ctx, eviction.nominatedToClear) })
	for i := range eviction.victims[:last] {
		wg.Go(func() { _, errs[i] = p.evictVictim(ctx, eviction, i) })
	}
	wg.Wait()
	silent := false
	err := errors.Join(errs...)
	if err == nil {
		p.pendingEvictions.setLastVictim(eviction.preemptor.UID, eviction.victims[last].UID)
		silent, err = p.evictVictim(ctx, eviction, last)
	}
	if err != nil {
		p.pendingEvictions.end(eviction.preemptor.UID)
	} else {
		p.pendingEvictions.markAllDeleted(eviction.preemptor.UID, time.Now())
	}
	if hook := p.handle.Hooks().Evicted; hook != nil {
		hook(eviction.podGroup, err, time.Since(began))
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Preemption failed; the pod is tried again",
			"preemptor", klog.KObj(eviction.preemptor), "node", eviction.node)
	}
	if err != nil || silent { // the end of a victim that would wake it does not come, or has come already
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Key(eviction.preemptor): eviction.preemptor})
	}
}

// clearNominatedNodeNames ends the nominations of Pods of lower priority to the node: they may fit
// elsewhere now.
func (p *defaultPreemption) clearNominatedNodeNames(ctx context.Context, pods []*v1.Pod) error {
	var errs []error
	for _, o := range pods {
		if o.Status.NominatedNodeName == "" {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":null}}`, o.UID)
		err := p.writer.PatchStatus(ctx, p.handle.ClientSet(), o, patch)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("taking the nominated node from Pod %s: %w", pod.Key(o), err))
		}
	}
	return errors.Join(errs...)
}

// evictVictim evicts a victim: a Pod that still waits at Permit is rejected, any other gets the
// condition DisruptionTarget and is deleted. True: no deletion of it will be seen.
func (p *defaultPreemption) evictVictim(ctx context.Context, eviction pendingEviction, i int) (silent bool, err error) {
	victim := eviction.victims[i]
	if w := p.handle.GetWaitingPod(victim.UID); w != nil {
		w.Preempt(plugins.DefaultPreemption, "preempted")
		p.recordEviction(ctx, eviction, i)
		return true, nil
	}
	if b := p.handle.GetPodInPreBind(victim.UID); b != nil && b.CancelPod(fmt.Sprintf("preempted by %s",
		plugins.DefaultPreemption)) {
		p.recordEviction(ctx, eviction, i)
		return true, nil
	}
	if err := p.patchDisruptionTarget(ctx, victim); err != nil {
		return false, err
	}
	err = p.writer.DeletePod(ctx, p.handle.ClientSet(), victim)
	switch {
	case apierrors.IsNotFound(err): // it went by itself
		return true, nil
	case err != nil:
		// a conflict too: another has its name by now, or somebody wrote at the same time; who
		// preempts looks again
		return false, fmt.Errorf("deleting victim %s: %w", pod.Key(victim), err)
	}
	p.recordEviction(ctx, eviction, i)
	return false, nil
}

// recordEviction states that a victim was evicted.
func (p *defaultPreemption) recordEviction(ctx context.Context, eviction pendingEviction, i int) {
	victim := eviction.victims[i]
	klog.FromContext(ctx).V(2).Info("Preemptor Pod preempted victim Pod", "preemptor", klog.KObj(eviction.preemptor),
		"victim", klog.KObj(victim), "node", eviction.node)
	note, by := fmt.Sprintf("Preempted by pod %v on node %v", eviction.preemptor.UID, eviction.node),
		objectReferenceOf(eviction.preemptor)
	p.writer.PreemptedEvent(ctx, &eventsv1.Event{ReportingController: p.handle.ProfileName(),
		Regarding: objectReferenceOf(victim), Related: &by, Note: note}, func() {
		p.handle.EventRecorder().Eventf(victim, eviction.preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "%s",
			note)
	})
	if hook := p.handle.Hooks().Preempted; hook != nil {
		hook(victim, eviction.reports[i])
	}
}

// patchDisruptionTarget sets the victim's condition DisruptionTarget. A victim that is gone is no
// error.
func (p *defaultPreemption) patchDisruptionTarget(ctx context.Context, victim *v1.Pod) error {
	patch, err := patchOf(victim, StatusUpdate{Condition: v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: victim.Generation,
		Reason:  v1.PodReasonPreemptionByScheduler,
		Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", p.handle.ProfileName()),
	}})
	if err == nil && patch != nil {
		err = p.writer.PatchStatus(ctx, p.handle.ClientSet(), victim, patch)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking victim %s as disrupted: %w", pod.Key(victim), err)
	}
	return nil
}
