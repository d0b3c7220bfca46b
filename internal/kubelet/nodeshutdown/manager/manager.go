package manager

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// Session is a connection to the service that shuts the machine down.
type Session interface {
	// CurrentInhibitDelay is how long it waits for those who hold a lock; OverrideInhibitDelay asks
	// for more.
	CurrentInhibitDelay(ctx context.Context) (time.Duration, error)
	OverrideInhibitDelay(ctx context.Context, d time.Duration) error
	// InhibitShutdown takes a lock that delays a shutdown.
	InhibitShutdown(ctx context.Context) (release func() error, err error)
	// PreparingForShutdown tells whether a shutdown has begun.
	PreparingForShutdown(ctx context.Context) (bool, error)
	// MonitorShutdown says true when a shutdown begins and false when it is called off; it is
	// closed when the connection is lost.
	MonitorShutdown(ctx context.Context) (<-chan bool, error)
	Close() error
}

// Deps is what a Manager works with.
type Deps struct {
	Bus     func(ctx context.Context) (Session, error)
	Steps   []nodeshutdown.Step
	Pods    func() []*v1.Pod // that are not over
	KillPod func(types.UID, podplan.Termination) (terminated <-chan struct{}, ok bool)
	Event   func(reason, message string)    // about the node
	Changed func()                          // the node's readiness has to be told anew
	Marked  func(begins bool, at time.Time) // told of the beginning and of the end of the work; may be nil
}

// Manager keeps the node's end orderly.
type Manager struct {
	d            Deps
	shuttingDown atomic.Bool
}

// New returns a Manager; Run makes it act.
func New(d Deps) *Manager { return &Manager{d: d} }

// ShuttingDown tells whether the node shuts down.
func (k *Manager) ShuttingDown() bool { return k.shuttingDown.Load() }

// Healthy is nil unless the node shuts down.
func (k *Manager) Healthy() error {
	if k.ShuttingDown() {
		return nodeshutdown.ErrShuttingDown
	}
	return nil
}

// Admit refuses every Pod while the node shuts down.
func (k *Manager) Admit() *reason.Refusal {
	if k.ShuttingDown() {
		return nodeshutdown.Refusal()
	}
	return nil
}

const reconnectDelay = time.Second // between attempts to reach the service

// Run waits for shutdowns until ctx ends. Without steps there is nothing to wait for.
func (k *Manager) Run(ctx context.Context) {
	if nodeshutdown.TotalPeriod(k.d.Steps) == 0 {
		return
	}
	log := klog.FromContext(ctx)
	for reported := ""; ctx.Err() == nil; {
		err := k.runSession(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != reported {
			reported = err.Error()
			log.Error(err, "Pods would not end in order at a shutdown of the machine; trying again",
				"after", reconnectDelay)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reconnectDelay):
		}
	}
}

// runSession works over one connection until it is lost.
func (k *Manager) runSession(ctx context.Context) error {
	bus, err := k.d.Bus(ctx)
	if err != nil {
		return fmt.Errorf("connect to the login service: %w", err)
	}
	defer bus.Close()
	signals, err := bus.MonitorShutdown(ctx)
	if err != nil {
		return fmt.Errorf("listen for shutdowns: %w", err)
	}
	if err := k.ensureInhibitDelay(ctx, bus); err != nil {
		return err
	}
	lock := &inhibitLock{bus: bus}
	defer lock.unlock(ctx)
	if err := lock.acquire(ctx); err != nil {
		return err
	}
	if active, err := bus.PreparingForShutdown(ctx); err == nil { // what was said while nobody listened
		if err := k.handleSignal(ctx, lock, active); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case active, open := <-signals:
			if !open {
				return fmt.Errorf("the connection to the login service was lost")
			}
			if err := k.handleSignal(ctx, lock, active); err != nil {
				return err
			}
		}
	}
}

// ensureInhibitDelay makes the service wait as long as all steps take.
func (k *Manager) ensureInhibitDelay(ctx context.Context, bus Session) error {
	need := nodeshutdown.TotalPeriod(k.d.Steps)
	have, err := bus.CurrentInhibitDelay(ctx)
	if err != nil {
		return fmt.Errorf("read InhibitDelayMaxSec: %w", err)
	}
	if have >= need {
		return nil
	}
	if err := bus.OverrideInhibitDelay(ctx, need); err != nil {
		return fmt.Errorf("raise InhibitDelayMaxSec from %s to %s: %w", have, need, err)
	}
	if have, err = bus.CurrentInhibitDelay(ctx); err != nil {
		return fmt.Errorf("read InhibitDelayMaxSec: %w", err)
	}
	if have < need {
		return fmt.Errorf("node shutdown manager was unable to update logind InhibitDelayMaxSec to %s "+
			"(ShutdownGracePeriod), current value of InhibitDelayMaxSec (%s) is less than requested "+
			"ShutdownGracePeriod", need, have)
	}
	return nil
}

// handleSignal acts on the word that a shutdown begins or is called off; what was known already
// changes nothing but the lock.
func (k *Manager) handleSignal(ctx context.Context, lock *inhibitLock, active bool) error {
	if active == k.ShuttingDown() {
		if active {
			lock.unlock(ctx) // the Pods have ended before
		}
		return nil
	}
	what := "cancelled"
	if active {
		what = "shutdown"
	}
	klog.FromContext(ctx).Info("Shutdown manager detected new shutdown event", "event", what)
	k.d.Event("Shutdown", fmt.Sprintf("Shutdown manager detected %s event", what))
	k.shuttingDown.Store(active)
	k.d.Changed()
	if !active {
		return lock.acquire(ctx)
	}
	k.mark(true)
	k.killPods(ctx)
	k.mark(false)
	lock.unlock(ctx)
	return nil
}

func (k *Manager) mark(begins bool) {
	if k.d.Marked != nil {
		k.d.Marked(begins, time.Now())
	}
}

// killPods ends all Pods, group by group.
func (k *Manager) killPods(ctx context.Context) {
	log := klog.FromContext(ctx)
	for _, g := range nodeshutdown.Plan(k.d.Steps, k.d.Pods()) {
		now := time.Now()
		var rest []<-chan struct{}
		for _, t := range g.Pods {
			log.V(1).Info("Shutdown manager killing pod with gracePeriod", "pod", klog.KObj(t.Pod),
				"gracePeriod", t.Grace)
			if at, ok := k.d.KillPod(t.Pod.UID, t.Termination(now)); ok {
				rest = append(rest, at)
			}
		}
		limit := time.NewTimer(g.Period)
		for _, at := range rest {
			select {
			case <-at:
				continue
			case <-limit.C:
				log.Info("Shutdown manager pod killing time out", "gracePeriod", g.Period, "priority", g.Priority)
			case <-ctx.Done():
			}
			break
		}
		limit.Stop()
	}
	log.V(1).Info("Shutdown manager completed processing shutdown event, node will shutdown shortly")
}

// inhibitLock is the delay lock.
type inhibitLock struct {
	bus     Session
	release func() error
}

func (l *inhibitLock) acquire(ctx context.Context) error {
	if l.release != nil {
		return nil
	}
	release, err := l.bus.InhibitShutdown(ctx)
	if err != nil {
		return fmt.Errorf("take a lock that delays shutdowns: %w", err)
	}
	l.release = release
	return nil
}

func (l *inhibitLock) unlock(ctx context.Context) {
	if l.release == nil {
		return
	}
	if err := l.release(); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot let go of the lock that delays shutdowns")
	}
	l.release = nil
}
