package policy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/policy/rules"
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
	// Gate is where the CNI plugin tells of Pods; nil: nobody does.
	Gate net.Listener
	// Journal is told which policies rule over a Pod; nil: nobody is.
	Journal journal.Sink
	// MinSync is the least time between two changes; 0: 50 ms.
	MinSync time.Duration
}

const (
	defaultMinSync = 50 * time.Millisecond
	// glance is how often the kernel is asked whether the table is whole, and what failed is tried again.
	glance = 30 * time.Second
	retry  = time.Second
	// lag is how long a Pod's start waits for the Pod to be seen here; a static Pod may not be in the API at all.
	lag = 3 * time.Second
)

// Keeper is one running enforcer.
type Keeper struct {
	o      Options
	views  views
	meter  *meter
	bell   chan time.Time // when it rang first since it was heard
	arrive chan *arrival
	synced chan struct{}
	// Of the loop only.
	waiting []*arrival
	inForce bool // the table may be there
	since   time.Time
	over    map[rules.PodID]rules.Ruling // nil before the first look
	here    map[rules.PodID]bool
}

// arrival is a Pod that waits at the gate.
type arrival struct {
	lease  Lease
	until  time.Time
	answer chan error
}

// New prepares a keeper.
func New(o Options) (*Keeper, error) {
	if o.Client == nil || o.Table == nil || o.Leases == nil {
		return nil, fmt.Errorf("network policies need a client, a table and leases")
	}
	if o.MinSync <= 0 {
		o.MinSync = defaultMinSync
	}
	return &Keeper{o: o, meter: newMeter(), bell: make(chan time.Time, 1), arrive: make(chan *arrival), synced: make(chan struct{}), inForce: true}, nil
}

// Synced is closed when all policies are in force for the first time.
func (k *Keeper) Synced() <-chan struct{} { return k.synced }

// Run keeps policies in force until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.o.Gate != nil {
		defer k.o.Gate.Close()
		go k.guard(ctx)
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
		case a := <-k.arrive:
			k.waiting = append(k.waiting, a)
			k.since = time.Now()
		case k.since = <-k.bell:
		case k.since = <-timer.C:
			if !first && k.o.Table.Doubt(ctx) {
				klog.FromContext(ctx).Info("The table of network policies was changed by somebody else; it is put right")
			}
		}
		timer.Stop()
		wait = k.look(ctx)
		if first && wait != retry {
			close(k.synced)
			first = false
		}
		if len(k.waiting) == 0 && !pause(ctx, k.o.MinSync) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *Keeper) ring() {
	select {
	case k.bell <- time.Now():
	default:
	}
}

// look brings the kernel to what is wanted now and lets those in whose rules are in force. It returns when to look again.
func (k *Keeper) look(ctx context.Context) time.Duration {
	began := time.Now()
	err := k.enforce(ctx)
	k.meter.sync.Observe(time.Since(began).Seconds())
	if err != nil && ctx.Err() == nil {
		k.meter.failures.Inc()
		klog.FromContext(ctx).Error(err, "Network policies were not taken; those before stay in force")
	}
	again := glance
	if err != nil {
		again = retry
	}
	now := time.Now()
	var stay []*arrival
	for _, a := range k.waiting {
		switch {
		case err != nil:
			a.answer <- err
		case k.known(a.lease) || !now.Before(a.until):
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
func (k *Keeper) enforce(ctx context.Context) error {
	policies := k.views.allPolicies()
	k.meter.policies.Set(float64(len(policies)))
	if len(policies) == 0 {
		if k.inForce {
			if err := k.o.Table.Remove(ctx); err != nil {
				return err
			}
		}
		k.inForce = false
		if len(k.over) > 0 { // a Pod that went along did not become free
			leases, err := k.o.Leases()
			if err != nil {
				return err
			}
			k.here = present(k.views.allPods(leases))
		}
		k.report(map[rules.PodID]rules.Ruling{})
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
	in := rules.In{Policies: policies, Namespaces: k.views.allNamespaces(), Pods: k.views.allPods(leases)}
	if err := k.o.Table.Set(ctx, rules.Build(in)); err != nil {
		return err
	}
	k.here = present(in.Pods)
	k.report(rules.Over(in))
	return nil
}

// known tells whether the lease's Pod is the one that is seen here, or whether that does not matter.
func (k *Keeper) known(l Lease) bool {
	return len(k.views.allPolicies()) == 0 || k.views.pod(l) != nil
}
