package shutdown

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/drain"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// Session is a connection to the service that shuts the machine down.
type Session interface {
	// MaxDelay is how long it waits for those who hold a lock; SetMaxDelay asks for more.
	MaxDelay(ctx context.Context) (time.Duration, error)
	SetMaxDelay(ctx context.Context, d time.Duration) error
	// Hold takes a lock that delays a shutdown.
	Hold(ctx context.Context) (release func() error, err error)
	// Preparing tells whether a shutdown has begun.
	Preparing(ctx context.Context) (bool, error)
	// Signals says true when a shutdown begins and false when it is called off; it is closed when the connection is lost.
	Signals(ctx context.Context) (<-chan bool, error)
	Close() error
}

// Deps is what a Keeper works with.
type Deps struct {
	Bus     func(ctx context.Context) (Session, error)
	Steps   []drain.Step
	Pods    func() []*v1.Pod // that are not over
	End     func(types.UID, podplan.End) (atRest <-chan struct{}, ok bool)
	Event   func(reason, message string)    // about the node
	Changed func()                          // the node's readiness has to be told anew
	Marked  func(begins bool, at time.Time) // told of the beginning and of the end of the work; may be nil
}

// Keeper keeps the node's end orderly.
type Keeper struct {
	d   Deps
	now atomic.Bool
}

// New returns a Keeper; Run makes it act.
func New(d Deps) *Keeper { return &Keeper{d: d} }

// Now tells whether the node shuts down.
func (k *Keeper) Now() bool { return k.now.Load() }

// Healthy is nil unless the node shuts down.
func (k *Keeper) Healthy() error {
	if k.Now() {
		return drain.ErrShuttingDown
	}
	return nil
}

// Admit refuses every Pod while the node shuts down.
func (k *Keeper) Admit() *reason.Refusal {
	if k.Now() {
		return drain.Refusal()
	}
	return nil
}

const again = time.Second // between attempts to reach the service

// Run waits for shutdowns until ctx ends. Without steps there is nothing to wait for.
func (k *Keeper) Run(ctx context.Context) {
	if drain.Total(k.d.Steps) == 0 {
		return
	}
	log := klog.FromContext(ctx)
	for told := ""; ctx.Err() == nil; {
		err := k.session(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			log.Error(err, "Pods would not end in order at a shutdown of the machine; trying again", "after", again)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// session works over one connection until it is lost.
func (k *Keeper) session(ctx context.Context) error {
	bus, err := k.d.Bus(ctx)
	if err != nil {
		return fmt.Errorf("connect to the login service: %w", err)
	}
	defer bus.Close()
	signals, err := bus.Signals(ctx)
	if err != nil {
		return fmt.Errorf("listen for shutdowns: %w", err)
	}
	if err := k.roomFor(ctx, bus); err != nil {
		return err
	}
	hold := &lock{bus: bus}
	defer hold.drop(ctx)
	if err := hold.take(ctx); err != nil {
		return err
	}
	if begun, err := bus.Preparing(ctx); err == nil { // what was said while nobody listened
		if err := k.turn(ctx, hold, begun); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case begun, open := <-signals:
			if !open {
				return fmt.Errorf("the connection to the login service was lost")
			}
			if err := k.turn(ctx, hold, begun); err != nil {
				return err
			}
		}
	}
}

// roomFor makes the service wait as long as all steps take.
func (k *Keeper) roomFor(ctx context.Context, bus Session) error {
	need := drain.Total(k.d.Steps)
	have, err := bus.MaxDelay(ctx)
	if err != nil {
		return fmt.Errorf("read InhibitDelayMaxSec: %w", err)
	}
	if have >= need {
		return nil
	}
	if err := bus.SetMaxDelay(ctx, need); err != nil {
		return fmt.Errorf("raise InhibitDelayMaxSec from %s to %s: %w", have, need, err)
	}
	if have, err = bus.MaxDelay(ctx); err != nil {
		return fmt.Errorf("read InhibitDelayMaxSec: %w", err)
	}
	if have < need {
		return fmt.Errorf("node shutdown manager was unable to update logind InhibitDelayMaxSec to %s (ShutdownGracePeriod), current value of InhibitDelayMaxSec (%s) is less than requested ShutdownGracePeriod", need, have)
	}
	return nil
}

// turn acts on the word that a shutdown begins or is called off; what was known already changes nothing but the lock.
func (k *Keeper) turn(ctx context.Context, hold *lock, begun bool) error {
	if begun == k.Now() {
		if begun {
			hold.drop(ctx) // the Pods have ended before
		}
		return nil
	}
	what := "cancelled"
	if begun {
		what = "shutdown"
	}
	klog.FromContext(ctx).Info("Shutdown manager detected new shutdown event", "event", what)
	k.d.Event("Shutdown", fmt.Sprintf("Shutdown manager detected %s event", what))
	k.now.Store(begun)
	k.d.Changed()
	if !begun {
		return hold.take(ctx)
	}
	k.mark(true)
	k.empty(ctx)
	k.mark(false)
	hold.drop(ctx)
	return nil
}

func (k *Keeper) mark(begins bool) {
	if k.d.Marked != nil {
		k.d.Marked(begins, time.Now())
	}
}

// empty ends all Pods, group by group.
func (k *Keeper) empty(ctx context.Context) {
	log := klog.FromContext(ctx)
	for _, g := range drain.Plan(k.d.Steps, k.d.Pods()) {
		now := time.Now()
		var rest []<-chan struct{}
		for _, t := range g.Pods {
			log.V(1).Info("Shutdown manager killing pod with gracePeriod", "pod", klog.KObj(t.Pod), "gracePeriod", t.Grace)
			if at, ok := k.d.End(t.Pod.UID, t.End(now)); ok {
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

// lock is the delay lock.
type lock struct {
	bus     Session
	release func() error
}

func (l *lock) take(ctx context.Context) error {
	if l.release != nil {
		return nil
	}
	release, err := l.bus.Hold(ctx)
	if err != nil {
		return fmt.Errorf("take a lock that delays shutdowns: %w", err)
	}
	l.release = release
	return nil
}

func (l *lock) drop(ctx context.Context) {
	if l.release == nil {
		return
	}
	if err := l.release(); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot let go of the lock that delays shutdowns")
	}
	l.release = nil
}
