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
	"github.com/gantry-project/gantry/internal/proxy/kernel"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Options say what is proxied, where and how. Client, Node and Tables are required.
type Options struct {
	Client kubernetes.Interface
	// Node is this node's name.
	Node string
	// Tables are the kernel's tables, one for each family.
	Tables []Table
	// Full is how often the kernel is compared with what is wanted; MinSync the least time between two changes. 0: 1 hour, 50 ms.
	Full, MinSync time.Duration
	// Resync is how often every Service is looked at anew, whether or not it changed; 0: never.
	Resync time.Duration
	// Healthz and Metrics are served there; nil: nowhere.
	Healthz, Metrics net.Listener
	// Profiling serves profiles beside the metrics, under /debug/pprof.
	Profiling bool
	// HealthChecks opens the port of a Service's health check; nil: on all addresses.
	HealthChecks func(port uint16) (net.Listener, error)
	Journal      journal.Sink
	// Forget drops stale UDP conversations; nil: in the kernel.
	Forget func(rules.Family, *rules.Flows) (int, error)
}

// Table is the kernel's table of one family.
type Table struct {
	Settings rules.Settings
	Kernel   *kernel.Table
}

// defaults of Options.
const (
	defaultFull    = time.Hour
	defaultMinSync = 50 * time.Millisecond
)

// Proxy is one running proxy.
type Proxy struct {
	o      Options
	meter  *meter
	health *health
	checks *checks
	views  views
	synced chan struct{} // closed when the kernel has everything for the first time

	mail mailbox

	// The loop's own.
	node   rules.Node
	books  []*rules.Book             // by table
	ports  map[string][][]rules.Port // by Service, by table
	drift  bool                      // the kernel may differ from the books
	owners map[string]rules.Owner    // who is in the books
	counts map[string]count          // Services with a health-check node port
	ways   []kernel.Ways             // by table, as last counted
	owed   owed                      // what looks that failed have left
}

// mailbox gathers what is to be looked at: many tells are one look.
type mailbox struct {
	mu    sync.Mutex
	dirty map[string]change // by NAMESPACE/NAME
	all   bool              // everything is to be looked at anew
	count [2]int            // changes that were told of, by kind
	taken [2]int            // of them, those that are worked on
	bell  chan struct{}
}

// Kinds of changes.
const services, endpointSlices = 0, 1

// change is when a Service's next look was asked for, and by which slice changes (their trigger times).
type change struct {
	since    time.Time
	triggers []time.Time
}

// New prepares a proxy.
func New(o Options) (*Proxy, error) {
	if o.Client == nil || o.Node == "" || len(o.Tables) == 0 {
		return nil, fmt.Errorf("a proxy needs a client, a node's name and a table")
	}
	if o.Full <= 0 {
		o.Full = defaultFull
	}
	if o.MinSync <= 0 {
		o.MinSync = defaultMinSync
	}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	if o.Forget == nil {
		o.Forget = kernel.ForgetStale
	}
	if o.HealthChecks == nil {
		o.HealthChecks = func(port uint16) (net.Listener, error) { return net.Listen("tcp", fmt.Sprintf(":%d", port)) }
	}
	p := &Proxy{
		o: o, meter: newMeter(), synced: make(chan struct{}), mail: mailbox{dirty: map[string]change{}, bell: make(chan struct{}, 1)},
		node: rules.Node{Name: o.Node}, ports: map[string][][]rules.Port{}, owners: map[string]rules.Owner{}, counts: map[string]count{},
	}
	p.health = newHealth(p.meter, 2*o.Full)
	p.checks = newChecks(o.HealthChecks, p.health)
	p.meter.pending(&p.mail)
	for range o.Tables {
		p.books = append(p.books, rules.NewBook())
		p.ways = append(p.ways, kernel.Ways{})
	}
	return p, nil
}

// Synced is closed when the kernel has everything for the first time.
func (p *Proxy) Synced() <-chan struct{} { return p.synced }

// Run proxies until ctx ends. What is in the kernel stays: Services work on while the proxy is away.
func (p *Proxy) Run(ctx context.Context) error {
	stop := p.serve(ctx)
	defer stop()
	defer p.checks.close()
	if err := p.watch(ctx); err != nil {
		return err
	}
	return p.loop(ctx)
}

// tell asks for a look at a Service, and wakes the loop.
func (p *Proxy) tell(kind int, service string, trigger time.Time) {
	p.mail.tell(kind, service, trigger)
	p.health.asked()
	for _, t := range p.o.Tables {
		p.meter.queued.WithLabelValues(familyLabel(t.Settings.Family)).SetToCurrentTime()
	}
	p.mail.ring()
}

func (m *mailbox) tell(kind int, service string, trigger time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count[kind]++
	c, told := m.dirty[service]
	if !told {
		c.since = time.Now()
	}
	if !trigger.IsZero() {
		c.triggers = append(c.triggers, trigger)
	}
	m.dirty[service] = c
}

// tellAll asks for a look at everything.
func (m *mailbox) tellAll() {
	m.mu.Lock()
	m.all = true
	m.mu.Unlock()
	m.ring()
}

func (m *mailbox) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// take empties the mailbox.
func (m *mailbox) take() (dirty map[string]change, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dirty, all = m.dirty, m.all
	m.dirty, m.all = map[string]change{}, false
	m.taken = m.count
	return dirty, all
}

// done notes that what was taken is in the kernel.
func (m *mailbox) done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, n := range m.taken {
		m.count[kind] -= n
	}
	m.taken = [2]int{}
}

// pending is how many changes of a kind are not in the kernel yet.
func (m *mailbox) pending(kind int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[kind]
}

// zoneOf is a node's zone.
func zoneOf(n *v1.Node) string {
	if n == nil {
		return ""
	}
	return n.Labels[v1.LabelTopologyZone]
}
