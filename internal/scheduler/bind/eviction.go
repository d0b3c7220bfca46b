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

// eviction is a preemption decided and to be carried out.
type eviction struct {
	preemptor *v1.Pod
	group     bool // the preemptor is one Pod of a PodGroup
	node      string
	victims   []*v1.Pod
	stories   []journal.Preempted // one per victim
	lower     []*v1.Pod           // Pods of lower priority that were promised the node
}

// carryOut makes the victims leave. The last one goes alone: its end wakes the preemptor.
func (p *preemption) carryOut(ctx context.Context, job eviction) {
	began := time.Now()
	last := len(job.victims) - 1
	errs := make([]error, len(job.victims)+1)
	var wg sync.WaitGroup
	wg.Go(func() { errs[last+1] = p.denominate(ctx, job.lower) })
	for i := range job.victims[:max(last, 0)] {
		wg.Go(func() { _, errs[i] = p.evict(ctx, job, i) })
	}
	wg.Wait()
	silent := last < 0
	err := errors.Join(errs...)
	if err == nil && last >= 0 {
		p.under.waitsFor(job.preemptor.UID, job.victims[last].UID)
		silent, err = p.evict(ctx, job, last)
	}
	if err != nil || last < 0 {
		p.under.end(job.preemptor.UID)
	} else {
		p.under.asked(job.preemptor.UID, time.Now())
	}
	if told := p.handle.Told().Evicted; told != nil {
		told(job.group, err, time.Since(began))
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Preemption failed; the pod is tried again", "preemptor", klog.KObj(job.preemptor), "node", job.node)
	}
	if err != nil || silent { // the end of a victim that would wake it does not come, or has come already
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Key(job.preemptor): job.preemptor})
	}
}

// denominate takes the node back from Pods of lower priority that were promised it: they may fit elsewhere now.
func (p *preemption) denominate(ctx context.Context, pods []*v1.Pod) error {
	var errs []error
	for _, o := range pods {
		if o.Status.NominatedNodeName == "" {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"nominatedNodeName":null}}`, o.UID)
		err := p.quick.Status(ctx, p.handle.ClientSet(), o, patch)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("taking the nominated node from Pod %s: %w", pod.Key(o), err))
		}
	}
	return errors.Join(errs...)
}

// evict ends a victim: a Pod still waiting to be bound is turned back, any other gets its DisruptionTarget condition and is deleted. It tells whether no deletion will be seen.
func (p *preemption) evict(ctx context.Context, job eviction, i int) (silent bool, err error) {
	victim := job.victims[i]
	if w := p.handle.GetWaitingPod(victim.UID); w != nil {
		w.Preempt(plugins.DefaultPreemption, "preempted")
		p.evicted(ctx, job, i)
		return true, nil
	}
	if b := p.handle.GetPodInPreBind(victim.UID); b != nil && b.CancelPod(fmt.Sprintf("preempted by %s", plugins.DefaultPreemption)) {
		p.evicted(ctx, job, i)
		return true, nil
	}
	if victim.DeletionTimestamp == nil {
		if err := p.markDisrupted(ctx, victim); err != nil {
			return false, err
		}
	}
	err = p.quick.Delete(ctx, p.handle.ClientSet(), victim)
	switch {
	case apierrors.IsNotFound(err): // it went by itself
		return true, nil
	case err != nil: // a conflict too: another has its name by now, or somebody wrote at the same time; who preempts looks again
		return false, fmt.Errorf("deleting victim %s: %w", pod.Key(victim), err)
	}
	p.evicted(ctx, job, i)
	return false, nil
}

// evicted tells that a victim was made to leave.
func (p *preemption) evicted(ctx context.Context, job eviction, i int) {
	victim := job.victims[i]
	klog.FromContext(ctx).V(2).Info("Preemptor Pod preempted victim Pod", "preemptor", klog.KObj(job.preemptor), "victim", klog.KObj(victim), "node", job.node)
	note, by := fmt.Sprintf("Preempted by pod %v on node %v", job.preemptor.UID, job.node), refTo(job.preemptor)
	p.quick.Preempted(ctx, &eventsv1.Event{ReportingController: p.handle.ProfileName(), Regarding: refTo(victim), Related: &by, Note: note}, func() {
		p.handle.EventRecorder().Eventf(victim, job.preemptor, v1.EventTypeNormal, "Preempted", "Preempting", "%s", note)
	})
	if told := p.handle.Told().Preempted; told != nil {
		told(victim, job.stories[i])
	}
}

func (p *preemption) markDisrupted(ctx context.Context, victim *v1.Pod) error {
	patch, err := patchOf(victim, Wish{Condition: v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: victim.Generation,
		Reason: v1.PodReasonPreemptionByScheduler, Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", p.handle.ProfileName()),
	}})
	if err == nil && patch != nil {
		err = p.quick.Status(ctx, p.handle.ClientSet(), victim, patch)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking victim %s as disrupted: %w", pod.Key(victim), err)
	}
	return nil
}
