package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// runWithTimeout rules about the Pod. The error is that a plugin panicked, or that one which is not
// built in does not return: such a ruling is left alone, with its desk.
func (s *Scheduler) runWithTimeout(ctx context.Context, a *schedulingAttempt) error {
	err := s.schedulePodGuarded(ctx, a)
	if err != nil {
		s.scratch = &scratch{rand: rand.New(rand.NewPCG(s.rand.Uint64(), 0))}
	}
	return err
}

func (s *Scheduler) schedulePodGuarded(ctx context.Context, a *schedulingAttempt) error {
	if !a.profile.HasOutOfTreePlugins() {
		return s.schedulePodRecovering(ctx, a)
	}
	b := *a
	b.pointDurations = map[string]journal.Took{}
	done := make(chan error, 1)
	go func() { done <- s.schedulePodRecovering(ctx, &b) }()
	t := time.NewTimer(s.PluginTimeout)
	defer t.Stop()
	select {
	case err := <-done:
		*a = b
		return err
	case <-t.C:
		return fmt.Errorf("plugin %s has not returned within %v", quoteNames(a.profile.HungPlugins()), s.PluginTimeout)
	}
}

func quoteNames(names []string) string {
	if len(names) == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%q", strings.Join(names, ", "))
}

// schedulePodRecovering rules, and turns a panic into an error that names the plugin where the
// stack shows it.
func (s *Scheduler) schedulePodRecovering(ctx context.Context, a *schedulingAttempt) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		p := frameworkruntime.NewPluginPanic(v)
		klog.FromContext(ctx).Error(nil, "A plugin panicked", "plugin", p.PluginName(), "pod", klog.KObj(a.Pod()),
			"panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
		err = fmt.Errorf("plugin %q panicked: %v", p.PluginName(), p.Value)
	}()
	s.schedulePod(ctx, a)
	return nil
}

// handleBrokenCycle puts back a Pod whose ruling came to no end.
func (s *Scheduler) handleBrokenCycle(ctx context.Context, a *schedulingAttempt, err error) {
	status := framework.AsStatus(err)
	s.Journal.Put(podRef(a.Pod()), journal.Ruled{Profile: a.profile.Name, Attempt: a.Attempts, Message: err.Error(),
		Took: journal.Took(time.Since(a.start))})
	s.handleSchedulingFailure(ctx, a, failure{status: status, message: err.Error()})
}
