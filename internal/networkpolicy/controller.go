package networkpolicy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// Lease is the Pod and the addresses of one sandbox of this node.
type Lease struct {
	Pod string // NAMESPACE/NAME
	UID string
	IPs []netip.Addr
}

// Options configure a Controller. Client, Table and Leases are required.
type Options struct {
	Client kubernetes.Interface
	Table  *Table
	// Leases returns the leases of this node's current sandboxes.
	Leases func() ([]Lease, error)
	// PodListener is where the CNI plugin announces Pods before they start; nil: Pods do not wait
	// for policies.
	PodListener net.Listener
	// Journal gets a fact when other policies select a Pod; nil: none.
	Journal journal.Sink
	// MinSyncPeriod is the least time between two syncs; 0: 50 ms.
	MinSyncPeriod time.Duration
}

const (
	defaultMinSyncPeriod = 50 * time.Millisecond
	// verifyPeriod is how often the kernel's table is verified.
	verifyPeriod = 30 * time.Second
	retryDelay   = time.Second
	// cacheLag is how long the start of a Pod waits for the Pod to appear in the cache. A static
	// Pod may never appear.
	cacheLag = 3 * time.Second
)

// Controller enforces NetworkPolicies for the Pods of this node. New makes it, Run runs it once.
type Controller struct {
	o        Options
	caches   objectCaches
	metrics  *policyMetrics
	wakeup   chan time.Time // the time of the first signal since the last sync
	arrivals chan *podArrival
	synced   chan struct{}
	// Fields below are used by Run's goroutine only.
	waiting     []*podArrival
	inForce     bool // the table may exist
	syncedSince time.Time
	podPolicies map[rules.PodID]rules.PodPolicies // nil before the first sync
	localPods   map[rules.PodID]bool
}

// podArrival is a Pod whose start waits for its policies.
type podArrival struct {
	lease  Lease
	until  time.Time
	answer chan error
}

// New checks o, fills in defaults and returns a Controller. It opens nothing.
func New(o Options) (*Controller, error) {
	if o.Client == nil || o.Table == nil || o.Leases == nil {
		return nil, fmt.Errorf("network policies need a client, a table and leases")
	}
	if o.MinSyncPeriod <= 0 {
		o.MinSyncPeriod = defaultMinSyncPeriod
	}
	return &Controller{o: o, metrics: newMetrics(), wakeup: make(chan time.Time, 1), arrivals: make(chan *podArrival),
		synced: make(chan struct{}), inForce: true}, nil
}

// Synced returns a channel that is closed when all policies are in force for the first time.
func (k *Controller) Synced() <-chan struct{} { return k.synced }

// Run watches policies, answers the CNI plugin and syncs the table until ctx ends, whose error it
// returns. The kernel's table stays.
func (k *Controller) Run(ctx context.Context) error {
	if k.o.PodListener != nil {
		defer k.o.PodListener.Close()
		go k.servePods(ctx)
	}
	if err := k.watch(ctx); err != nil {
		return err
	}
	first, wait := true, time.Duration(0)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case a := <-k.arrivals:
			k.waiting = append(k.waiting, a)
			k.syncedSince = time.Now()
		case k.syncedSince = <-k.wakeup:
		case k.syncedSince = <-timer.C:
			if !first && k.o.Table.Verify(ctx) {
				klog.FromContext(ctx).Info(
					"The table of network policies was changed by somebody else; it is put right")
			}
		}
		timer.Stop()
		wait = k.sync(ctx)
		if first && wait != retryDelay {
			close(k.synced)
			first = false
		}
		if len(k.waiting) == 0 && !waitContext(ctx, k.o.MinSyncPeriod) {
			return ctx.Err()
		}
	}
}

func waitContext(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *Controller) signal() {
	select {
	case k.wakeup <- time.Now():
	default:
	}
}

// sync enforces the current policies, answers the waiting Pods whose rules are in force, and
// returns when to sync again at the latest.
func (k *Controller) sync(ctx context.Context) time.Duration {
	began := time.Now()
	err := k.enforce(ctx)
	k.metrics.sync.Observe(time.Since(began).Seconds())
	if err != nil && ctx.Err() == nil {
		k.metrics.failures.Inc()
		klog.FromContext(ctx).Error(err, "Network policies were not taken; those before stay in force")
	}
	again := verifyPeriod
	if err != nil {
		again = retryDelay
	}
	now := time.Now()
	var stay []*podArrival
	for _, a := range k.waiting {
		switch {
		case err != nil:
			a.answer <- err
		case k.podKnown(a.lease) || !now.Before(a.until):
			a.answer <- nil
		default:
			stay = append(stay, a)
			again = min(again, a.until.Sub(now))
		}
	}
	k.waiting = stay
	return again
}

// enforce makes the table equal to what policies, Pods and leases ask for; without policies it
// removes the table.
func (k *Controller) enforce(ctx context.Context) error {
	policies := k.caches.allPolicies()
	k.metrics.policies.Set(float64(len(policies)))
	if len(policies) == 0 {
		if k.inForce {
			if err := k.o.Table.Remove(ctx); err != nil {
				return err
			}
		}
		k.inForce = false
		if len(k.podPolicies) > 0 { // so that a deleted Pod is not reported as no longer selected
			leases, err := k.o.Leases()
			if err != nil {
				return err
			}
			k.localPods = presentPods(k.caches.allPods(leases))
		}
		k.reportPolicies(map[rules.PodID]rules.PodPolicies{})
		return nil
	}
	if err := k.watchPods(ctx); err != nil {
		return err
	}
	leases, err := k.o.Leases()
	if err != nil {
		return err
	}
	k.inForce = true
	in := rules.In{Policies: policies, Namespaces: k.caches.allNamespaces(), Pods: k.caches.allPods(leases)}
	if err := k.o.Table.Set(ctx, rules.Build(in)); err != nil {
		return err
	}
	k.localPods = presentPods(in.Pods)
	k.reportPolicies(rules.PoliciesByPod(in))
	return nil
}

// podKnown reports whether the lease's Pod is in the cache, or there are no policies.
func (k *Controller) podKnown(l Lease) bool {
	return len(k.caches.allPolicies()) == 0 || k.caches.pod(l) != nil
}
