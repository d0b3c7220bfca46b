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

// Options say what is proxied, where and how. Client, Node and Tables are required.
type Options struct {
	Client kubernetes.Interface
	// Node is this node's name.
	Node string
	// Tables are the kernel's tables, one for each family.
	Tables []Table
	// Full is how often the kernel is compared with what is wanted; MinSyncPeriod the least time
	// between two changes. 0: 1 hour, 50 ms.
	FullSyncPeriod, MinSyncPeriod time.Duration
	// ResyncPeriod is how often every Service is looked at anew, whether or not it changed; 0:
	// never.
	ResyncPeriod time.Duration
	// Healthz and Metrics are served there; nil: nowhere.
	Healthz, Metrics net.Listener
	// Profiling serves profiles beside the metrics, under /debug/pprof.
	Profiling bool
	// HealthChecks opens the port of a Service's health check; nil: on all addresses.
	HealthChecks func(port uint16) (net.Listener, error)
	Journal      journal.Sink
	// CleanStaleEntries drops stale UDP conversations; nil: in the kernel.
	CleanStaleEntries func(rules.Family, *rules.UDPFlows) (int, error)
}

// Table is the kernel's table of one family.
type Table struct {
	Settings rules.Settings
	Kernel   *nftables.Table
}

// defaults of Options.
const (
	defaultFullSyncPeriod = time.Hour
	defaultMinSyncPeriod  = 50 * time.Millisecond
)

// Proxier is one running proxy.
type Proxier struct {
	o             Options
	metrics       *proxyMetrics
	health        *proxyHealthServer
	serviceHealth *serviceHealthServer
	caches        objectCaches
	synced        chan struct{} // closed when the kernel has everything for the first time

	changes changeTracker

	// The loop's own.
	node         rules.Node
	tables       []tableState                     // as Options.Tables
	ports        map[string][][]rules.ServicePort // by Service, by table
	needFullSync bool                             // the kernel may differ from the books
	owners       map[string]rules.Owner           // who is in the books
	healthChecks map[string]healthCheckTarget     // Services with a health-check node port
	pending      pendingChanges                   // what looks that failed have left
}

// tableState is what the loop knows of one table.
type tableState struct {
	desired      *rules.DesiredState        // what the kernel is to have
	transactions nftables.TransactionCounts // as last counted
}

// changeTracker gathers what is to be looked at: many tells are one look.
type changeTracker struct {
	mu         sync.Mutex
	dirty      map[string]change // by NAMESPACE/NAME
	full       bool              // everything is to be looked at anew
	observed   [2]int            // changes that were told of, by kind
	inProgress [2]int            // of them, those that are worked on
	wakeup     chan struct{}
}

// Kinds of changes.
const services, endpointSlices = 0, 1

// change is when a Service's next look was asked for, and by which slice changes (their trigger
// times).
type change struct {
	since    time.Time
	triggers []time.Time
}

// New prepares a proxy.
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

// Synced is closed when the kernel has everything for the first time.
func (p *Proxier) Synced() <-chan struct{} { return p.synced }

// Run proxies until ctx ends. What is in the kernel stays: Services work on while the proxy is
// away.
func (p *Proxier) Run(ctx context.Context) error {
	stop := p.serveHTTP(ctx)
	defer stop()
	defer p.serviceHealth.close()
	if err := p.watch(ctx); err != nil {
		return err
	}
	return p.loop(ctx)
}

// onServiceChange asks for a look at a Service, and wakes the loop.
func (p *Proxier) onServiceChange(kind int, service string, trigger time.Time) {
	p.changes.update(kind, service, trigger)
	p.health.queuedUpdate()
	for _, t := range p.o.Tables {
		p.metrics.queued.WithLabelValues(familyLabel(t.Settings.Family)).SetToCurrentTime()
	}
	p.changes.signal()
}

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

// updateAll asks for a look at everything.
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

// takePending empties the mailbox.
func (m *changeTracker) takePending() (dirty map[string]change, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dirty, all = m.dirty, m.full
	m.dirty, m.full = map[string]change{}, false
	m.inProgress = m.observed
	return dirty, all
}

// processed notes that what was taken is in the kernel.
func (m *changeTracker) processed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, n := range m.inProgress {
		m.observed[kind] -= n
	}
	m.inProgress = [2]int{}
}

// pendingCount is how many changes of a kind are not in the kernel yet.
func (m *changeTracker) pendingCount(kind int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.observed[kind]
}

// zoneOf is a node's zone.
func zoneOf(n *v1.Node) string {
	if n == nil {
		return ""
	}
	return n.Labels[v1.LabelTopologyZone]
}
