package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Period is how often the node is looked at when nothing calls for it.
const Period = 10 * time.Second

// How long the manager waits for a victim before it looks again, as upstream.
const (
	minKillTimeout    = 10 * time.Second // for its containers to end; at least one and a half times its grace
	podCleanupTimeout = 30 * time.Second // and for what it held to be given back
	podCleanupPoll    = 100 * time.Millisecond
)

// limitsPatience is how long a hard threshold waits until Pods were held against their own limits,
// which go first.
const limitsPatience = 20 * time.Millisecond

// Deps is what a Manager works with. Fields without a note are required.
type Deps struct {
	Config  eviction.Config
	Node    *v1.ObjectReference
	Observe func(context.Context) (eviction.Figures, eviction.Disks, error)
	// Measure reads what Pods take of a resource.
	Measure func(context.Context, v1.ResourceName, []*v1.Pod) (map[types.UID]eviction.PodUse, error)
	// Containers reads what the containers of a victim take of memory, to tell of it; nil: nobody
	// tells of it
	Containers func(*v1.Pod) []eviction.ContainerUse
	Pods       func() []*v1.Pod // those that hold something of the node, equal ones in the order they go
	// KillPod asks for the end of a Pod; false: it is not there.
	KillPod   func(types.UID, podplan.Termination) (terminated <-chan struct{}, ok bool)
	CleanedUp func(types.UID) bool // nothing of the Pod is left
	Reclaim   map[eviction.Reclaim]func(context.Context) error
	// OverLimits ends Pods over limits of their own; true: there were some. nil: nobody looks
	OverLimits func(context.Context) bool
	Events     record.EventRecorder
	Journal    journal.Sink
	Changed    func() // called when the node's conditions have changed; may be nil
	// Notices tell that the kernel wants a look now; may be nil
	Notices <-chan string
	Metrics Metrics
}

// Metrics receives figures; a nil field receives nothing.
type Metrics struct {
	Observed  func(eviction.Observations) // at each look
	StatsAge  func(signal string, age time.Duration)
	Fruitless func(signal string, evictions int)
}

// Manager watches a node. Run works; Conditions may be called from any goroutine at any time.
type Manager struct {
	d        Deps
	state    eviction.State     // of Run alone, as all below but conditions
	victims  map[types.UID]bool // asked to end and, as far as is known, not there yet
	reported reports
	limits   limits

	mu         sync.Mutex
	conditions []v1.NodeConditionType
}

// limits is how Pods are held against limits of their own.
type limits struct {
	checked   time.Time // when that was last begun
	measuring chan bool // what comes of it; nil: it is over
}

// reports are what was reported and is not reported again.
type reports struct {
	fruitless eviction.Fruitless
	ignored   []eviction.Signal // thresholds of containerfs that count for nothing
	failure   string            // of the last look
}

// New returns a Manager; Run has it work.
func New(d Deps) *Manager { return &Manager{d: d, victims: map[types.UID]bool{}} }

// Conditions are those of the node that evictions are about, by name.
func (m *Manager) Conditions() []v1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.conditions)
}

// Run watches until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	if len(m.d.Config.Thresholds) == 0 && m.d.OverLimits == nil {
		return
	}
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for ctx.Err() == nil {
		if m.synchronize(ctx) {
			continue // the figures are others now
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case why := <-m.d.Notices:
			klog.FromContext(ctx).V(2).Info("Eviction manager: looking at once", "reason", why)
		}
	}
}

// synchronize reads, decides and acts once, as upstream's does. true: a Pod was evicted, and has
// ended or was waited for.
func (m *Manager) synchronize(ctx context.Context) bool {
	in, err := m.observe(ctx)
	if err != nil {
		m.failed(ctx, err)
		return false
	}
	d := eviction.Decide(in)
	m.publish(d)
	if some, told := m.overLimits(ctx, d, in.Now); some || told {
		m.state = d.State
		return told
	}
	m.reportFruitless(ctx, d)
	if d.Target == nil {
		m.reported.failure = ""
		m.state = d.State
		return false
	}
	m.reportTarget(ctx, d)
	if m.reclaim(ctx, d, in.Config) {
		klog.FromContext(ctx).Info("Eviction manager: able to reduce resource pressure without evicting pods.",
			"resourceName", d.Resource)
		m.state = d.State
		return false
	}
	in.Pods = m.candidates()
	if in.Use, err = m.d.Measure(ctx, d.Resource, in.Pods); err != nil {
		m.failed(ctx, fmt.Errorf("what Pods take of %s: %w", d.Resource, err))
		m.state = d.State
		return false
	}
	m.reported.failure = ""
	d = eviction.Decide(in)
	if d.Victim != nil && d.Resource == v1.ResourceMemory && m.d.Containers != nil {
		d = m.detailed(in, d.Victim.Pod)
	}
	m.state = d.State
	return m.evict(ctx, d)
}

// detailed decides again, the same, knowing the victim's containers: its message names them. One
// Pod's are read, not those of all.
func (m *Manager) detailed(in eviction.In, victim *v1.Pod) eviction.Decision {
	if use, measured := in.Use[victim.UID]; measured {
		use.Containers = m.d.Containers(victim)
		in.Use[victim.UID] = use
	}
	return eviction.Decide(in)
}

// overLimits has Pods over limits of their own end, once a period: looks that the kernel asks for
// may come in quick succession, and measuring disks is dear. What is short at once does not wait
// long for that. some: Pods have to go. told: the kernel asked for a look meanwhile.
func (m *Manager) overLimits(ctx context.Context, d eviction.Decision, now time.Time) (some, told bool) {
	if m.limits.measuring != nil {
		select {
		case some = <-m.limits.measuring:
			m.limits.measuring = nil
		default:
		}
		return some, false
	}
	if m.d.OverLimits == nil || now.Sub(m.limits.checked) < Period-time.Second {
		return false, false
	}
	measuring := make(chan bool, 1)
	m.limits = limits{checked: now, measuring: measuring}
	go func() { measuring <- m.d.OverLimits(ctx) }()
	var patience <-chan time.Time
	if d.Target != nil && d.Target.Hard() {
		patience = time.After(limitsPatience)
	}
	select {
	case some = <-m.limits.measuring:
		m.limits.measuring = nil
	case <-m.d.Notices:
		told = true
	case <-patience:
	case <-ctx.Done():
	}
	return some, told
}

// observe reads the node.
func (m *Manager) observe(ctx context.Context) (eviction.In, error) {
	figures, disks, err := m.d.Observe(ctx)
	if err != nil {
		return eviction.In{}, err
	}
	in := eviction.In{Config: m.d.Config, Disks: disks, Observations: eviction.Observe(figures), State: m.state,
		Now: time.Now()}
	if m.d.Metrics.Observed != nil {
		m.d.Metrics.Observed(in.Observations)
	}
	var ignored []eviction.Signal
	in.Config.Thresholds, ignored = eviction.ForDisks(in.Config.Thresholds, disks)
	if !slices.Equal(ignored, m.reported.ignored) {
		m.reported.ignored = ignored
		klog.FromContext(ctx).Info("Eviction manager: thresholds of containerfs are ignored; those of the file "+
			"system that writable layers are on hold for them", "signals", ignored)
	}
	return in, nil
}

// failed logs why the node could not be looked at, once for each cause.
func (m *Manager) failed(ctx context.Context, err error) {
	if ctx.Err() != nil || err.Error() == m.reported.failure {
		return
	}
	m.reported.failure = err.Error()
	klog.FromContext(ctx).Error(err, "Eviction manager: failed to get summary stats")
}

// publish makes the conditions known.
func (m *Manager) publish(d eviction.Decision) {
	m.mu.Lock()
	same := slices.Equal(m.conditions, d.Conditions)
	m.conditions = d.Conditions
	m.mu.Unlock()
	if !same && m.d.Changed != nil {
		m.d.Changed()
	}
}

// reclaim does what frees something without a Pod; true: no Pod has to go.
func (m *Manager) reclaim(ctx context.Context, d eviction.Decision, c eviction.Config) bool {
	for _, what := range d.Reclaim {
		if err := m.d.Reclaim[what](ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Info("Eviction manager: unexpected error when attempting to reduce resource pressure",
				"resourceName", d.Resource, "reclaims", what, "err", err)
		}
	}
	if len(d.Reclaim) == 0 {
		return false
	}
	figures, _, err := m.d.Observe(ctx)
	if err != nil {
		m.failed(ctx, err)
		return false
	}
	return eviction.Resolved(c, eviction.Observe(figures))
}

// candidates are the Pods that may have to go: not those that were asked to.
func (m *Manager) candidates() []*v1.Pod {
	pods := m.d.Pods()
	present := map[types.UID]bool{}
	for _, p := range pods {
		present[p.UID] = true
	}
	maps.DeleteFunc(m.victims, func(uid types.UID, _ bool) bool { return !present[uid] })
	return slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool { return m.victims[p.UID] })
}
