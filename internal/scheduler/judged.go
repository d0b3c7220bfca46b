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
	"github.com/gantry-project/gantry/internal/scheduler/glue"
)

// judged rules about the Pod. The error is that a plugin panicked, or that one which is not built in does not return: such a ruling is left alone, with its desk.
func (s *Scheduler) judged(ctx context.Context, a *attempt) error {
	err := s.watched(ctx, a)
	if err != nil {
		s.desk = &desk{pick: rand.New(rand.NewPCG(s.pick.Uint64(), 0))}
	}
	return err
}

func (s *Scheduler) watched(ctx context.Context, a *attempt) error {
	if !a.profile.Foreign() {
		return s.caught(ctx, a)
	}
	b := *a
	b.points = map[string]journal.Took{}
	done := make(chan error, 1)
	go func() { done <- s.caught(ctx, &b) }()
	t := time.NewTimer(s.Patience)
	defer t.Stop()
	select {
	case err := <-done:
		*a = b
		return err
	case <-t.C:
		return fmt.Errorf("plugin %s has not returned within %v", quoted(a.profile.Hung()), s.Patience)
	}
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%q", strings.Join(names, ", "))
}

// caught rules, and turns a panic into an error that names the plugin where the stack shows it.
func (s *Scheduler) caught(ctx context.Context, a *attempt) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		p := glue.Caught(v)
		klog.FromContext(ctx).Error(nil, "A plugin panicked", "plugin", p.Culprit(), "pod", klog.KObj(a.Pod()), "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
		err = fmt.Errorf("plugin %q panicked: %v", p.Culprit(), p.Value)
	}()
	s.rule(ctx, a)
	return nil
}

// broken puts back a Pod whose ruling came to no end.
func (s *Scheduler) broken(ctx context.Context, a *attempt, err error) {
	status := framework.AsStatus(err)
	s.Journal.Put(ref(a.Pod()), journal.Ruled{Profile: a.profile.Name, Attempt: a.Attempts, Message: err.Error(), Took: journal.Took(time.Since(a.began))})
	s.failed(ctx, a, outcome{status: status, message: err.Error()})
}
