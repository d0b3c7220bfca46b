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

// Lease is what a sandbox of this node has.
type Lease struct {
	Pod string // NAMESPACE/NAME
	UID string
	IPs []netip.Addr
}

// Options say what is put in force and where. All but Gate are required.
type Options struct {
	Client kubernetes.Interface
	Table  *Table
	// Leases are those of this node's sandboxes now.
	Leases func() ([]Lease, error)
	// PodListener is where the CNI plugin tells of Pods; nil: nobody does.
	PodListener net.Listener
	// Journal is told which policies rule over a Pod; nil: nobody is.
	Journal journal.Sink
	// MinSyncPeriod is the least time between two changes; 0: 50 ms.
	MinSyncPeriod time.Duration
}

const (
	defaultMinSyncPeriod = 50 * time.Millisecond
	// verifyPeriod is how often the kernel is asked whether the table is whole, and what failed is
	// tried again.
	verifyPeriod = 30 * time.Second
	retryDelay   = time.Second
	// cacheLag is how long a Pod's start waits for the Pod to be seen here; a static Pod may not be
	// in the API at all.
	cacheLag = 3 * time.Second
)

// Controller is one running enforcer.
type Controller struct {
	o        Options
	caches   objectCaches
	metrics  *policyMetrics
	wakeup   chan time.Time // when it rang first since it was heard
	arrivals chan *podArrival
	synced   chan struct{}
	// Of the loop only.
	waiting     []*podArrival
	inForce     bool // the table may be there
	syncedSince time.Time
	podPolicies map[rules.PodID]rules.PodPolicies // nil before the first look
	localPods   map[rules.PodID]bool
}

// podArrival is a Pod that waits at the gate.
type podArrival struct {
	lease  Lease
	until  time.Time
	answer chan error
}

// New prepares a keeper.
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

// Synced is closed when all policies are in force for the first time.
func (k *Controller) Synced() <-chan struct{} { return k.synced }

// Run keeps policies in force until ctx ends.
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

// sync brings the kernel to what is wanted now and lets those in whose rules are in force. It
// returns when to look again.
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

// enforce makes the table what policies, Pods and leases ask for.
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
		if len(k.podPolicies) > 0 { // a Pod that went along did not become free
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

// podKnown tells whether the lease's Pod is the one that is seen here, or whether that does not
// matter.
func (k *Controller) podKnown(l Lease) bool {
	return len(k.caches.allPolicies()) == 0 || k.caches.pod(l) != nil
}
