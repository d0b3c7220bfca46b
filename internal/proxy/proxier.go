package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Options configure a Proxier. Client, Node and Tables are required.
type Options struct {
	Client kubernetes.Interface
	// Node is the name of this node.
	Node string
	// Tables are the kernel's tables, one per IP family.
	Tables []Table
	// FullSyncPeriod is how often the kernel's content is compared with the desired state (default
	// 1 hour); MinSyncPeriod the least time between two syncs (default 50 ms).
	FullSyncPeriod, MinSyncPeriod time.Duration
	// ResyncPeriod is how often all Services are synced whether or not they changed; 0: never.
	ResyncPeriod time.Duration
	// Healthz and Metrics are the listeners for health and metrics; nil: not served.
	Healthz, Metrics net.Listener
	// Profiling serves /debug/pprof on the metrics listener.
	Profiling bool
	// HealthChecks opens a Service's health-check node port; nil: on all addresses.
	HealthChecks func(port uint16) (net.Listener, error)
	Journal      journal.Sink
	// CleanStaleEntries deletes stale UDP conntrack entries and returns their number; nil: in the
	// kernel.
	CleanStaleEntries func(rules.Family, *rules.UDPFlows) (int, error)
}

// Table is the kernel table of one IP family with the settings of its rules.
type Table struct {
	Settings rules.Settings
	Kernel   *nftables.Table
}

// Defaults of Options.
const (
	defaultFullSyncPeriod = time.Hour
	defaultMinSyncPeriod  = 50 * time.Millisecond
)

// Proxier programs Services into the kernel. New makes it, Run runs it once.
type Proxier struct {
	o             Options
	metrics       *proxyMetrics
	health        *proxyHealthServer
	serviceHealth *serviceHealthServer
	caches        objectCaches
	synced        chan struct{} // closed after the first successful sync

	changes changeTracker

	// Fields below are used by the sync loop's goroutine only.
	node         rules.Node
	tables       []tableState                     // in the order of Options.Tables
	ports        map[string][][]rules.ServicePort // by Service (NAMESPACE/NAME), then by table
	needFullSync bool                             // the kernel may differ from the desired state
	owners       map[string]rules.Owner           // Services in the desired state
	healthChecks map[string]healthCheckTarget     // Services with a health-check node port
	pending      pendingChanges                   // left over from failed syncs
}

// tableState is what the sync loop knows of one table.
type tableState struct {
	desired      *rules.DesiredState        // what the kernel should have
	transactions nftables.TransactionCounts // as last added to the metrics
}

// changeTracker collects changed Services until the sync loop takes them; several changes of a
// Service become one sync. It is safe for concurrent use.
type changeTracker struct {
	mu         sync.Mutex
	dirty      map[string]change // by NAMESPACE/NAME
	full       bool              // sync all Services
	observed   [2]int            // changes not in the kernel yet, by kind
	inProgress [2]int            // of observed, those taken by the current sync
	wakeup     chan struct{}
}

// Kinds of changes, indices of changeTracker.observed.
const services, endpointSlices = 0, 1

// change is a pending change of a Service: when the first event arrived, and the trigger times of
// its EndpointSlice changes.
type change struct {
	since    time.Time
	triggers []time.Time
}

// New checks o, fills in defaults and returns a Proxier. It opens nothing; Run does.
func New(o Options) (*Proxier, error) {
	if o.Client == nil || o.Node == "" || len(o.Tables) == 0 {
		return nil, fmt.Errorf("a proxy needs a client, a node's name and a table")
	}
	if o.FullSyncPeriod <= 0 {
		o.FullSyncPeriod = defaultFullSyncPeriod
	}
	if o.MinSyncPeriod <= 0 {
		o.MinSyncPeriod = defaultMinSyncPeriod
	}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	if o.CleanStaleEntries == nil {
		o.CleanStaleEntries = nftables.CleanStaleEntries
	}
	if o.HealthChecks == nil {
		o.HealthChecks = func(port uint16) (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf(":%d", port)) }
	}
	p := &Proxier{
		o: o, metrics: newMetrics(), synced: make(chan struct{}), changes: changeTracker{dirty: map[string]change{},
			wakeup: make(chan struct{}, 1)},
		node: rules.Node{Name: o.Node}, ports: map[string][][]rules.ServicePort{}, owners: map[string]rules.Owner{},
		healthChecks: map[string]healthCheckTarget{},
	}
	p.health = newProxyHealthServer(p.metrics, 2*o.FullSyncPeriod)
	p.serviceHealth = newServiceHealthServer(o.HealthChecks, p.health)
	p.metrics.registerPending(&p.changes)
	for range o.Tables {
		p.tables = append(p.tables, tableState{desired: rules.NewDesiredState()})
	}
	return p, nil
}

// Synced returns a channel that is closed after the first successful sync of all tables.
func (p *Proxier) Synced() <-chan struct{} { return p.synced }

// Run serves health and metrics, watches Services, EndpointSlices and the Node, and syncs rules
// until ctx ends, whose error it returns. The kernel's tables stay, so Services work while the
// proxy is down.
func (p *Proxier) Run(ctx context.Context) error {
	stop := p.serveHTTP(ctx)
	defer stop()
	defer p.serviceHealth.close()
	if err := p.watch(ctx); err != nil {
		return err
	}
	return p.loop(ctx)
}

// onServiceChange records a change of a Service and wakes the sync loop. trigger is the
// EndpointSlice's trigger time, or zero.
func (p *Proxier) onServiceChange(kind int, service string, trigger time.Time) {
	p.changes.update(kind, service, trigger)
	p.health.queuedUpdate()
	for _, t := range p.o.Tables {
		p.metrics.queued.WithLabelValues(familyLabel(t.Settings.Family)).SetToCurrentTime()
	}
	p.changes.signal()
}

// update marks a Service as changed, since now unless it is marked already. A trigger that is not
// zero counts for the latency metric.
func (m *changeTracker) update(kind int, service string, trigger time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observed[kind]++
	c, reported := m.dirty[service]
	if !reported {
		c.since = time.Now()
	}
	if !trigger.IsZero() {
		c.triggers = append(c.triggers, trigger)
	}
	m.dirty[service] = c
}

// updateAll marks every Service as changed and wakes the sync loop.
func (m *changeTracker) updateAll() {
	m.mu.Lock()
	m.full = true
	m.mu.Unlock()
	m.signal()
}

func (m *changeTracker) signal() {
	select {
	case m.wakeup <- struct{}{}:
	default:
	}
}

// takePending returns and clears the collected changes; all asks for a sync of every Service.
func (m *changeTracker) takePending() (dirty map[string]change, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dirty, all = m.dirty, m.full
	m.dirty, m.full = map[string]change{}, false
	m.inProgress = m.observed
	return dirty, all
}

// processed notes that the changes of the last takePending are in the kernel.
func (m *changeTracker) processed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, n := range m.inProgress {
		m.observed[kind] -= n
	}
	m.inProgress = [2]int{}
}

// pendingCount returns how many changes of a kind are not in the kernel yet.
func (m *changeTracker) pendingCount(kind int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.observed[kind]
}

// zoneOf returns the node's zone label, or "" if n is nil.
func zoneOf(n *v1.Node) string {
	if n == nil {
		return ""
	}
	return n.Labels[v1.LabelTopologyZone]
}
