package fork

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/scheduler"
	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/memapi"
	"github.com/gantry-project/gantry/internal/simulate/memstore"
	"github.com/gantry-project/gantry/internal/simulate/syncinformer"
	"github.com/gantry-project/gantry/internal/simulate/usage"
	"github.com/gantry-project/gantry/internal/simulate/virtualnode"
)

// Options are what a Cluster is made from.
type Options struct {
	// Objects are those of a cluster, with UIDs and statuses, or of manifests, without. The Cluster
	// keeps them.
	Objects []runtime.Object
	Start   time.Time // the clock's first time
	Model   behavior.Model
	// Seed is of the scheduler's choice among equal nodes, and of UIDs; 0: 1.
	Seed      uint64
	Scheduler *schedulerconfig.KubeSchedulerConfiguration // completed; nil: the default
	// Heartbeats has nodes report, and those that do not be found unreachable. Without, every node
	// stays as it is.
	Heartbeats bool
	// NodeMonitorGracePeriod is how long a node may not report before it is unreachable; 0: the
	// controllers' default. Without Heartbeats it has no effect.
	NodeMonitorGracePeriod time.Duration
	Usage                  usage.Figures // what containers take, as far as it was measured
}

// storage are the parts that make and attach volumes.
type storage struct {
	provisioner *provisioner
	attacher    *attacher
}

// Cluster is a cluster in virtual time. One goroutine uses it.
type Cluster struct {
	clock       time.Time
	store       *memstore.Store
	informers   *syncinformer.Factory
	api         *memapi.Server
	controllers []*controllerruntime.ManualQueue
	owners      *ownersFeed
	scheduler   *scheduler.Manual
	kubelets    *virtualnode.Kubelets
	usage       *nodeUsage
	storage
	log       *Log
	timers    []timer
	watchers  []func(memstore.Change)
	changedAt time.Time // when an object other than a lease last changed
	notes     []string
}

// timer is something to do at a time.
type timer struct {
	at time.Time
	do func(ctx context.Context)
}

// New makes a copy. The error names the object that cannot be taken.
func New(ctx context.Context, o Options) (*Cluster, error) {
	if o.Seed == 0 {
		o.Seed = 1
	}
	c := &Cluster{clock: o.Start, informers: syncinformer.New(), usage: newNodeUsage(o.Usage, o.Model),
		storage: storage{provisioner: newProvisioner(o.Objects), attacher: newAttacher(o.Objects)}}
	c.store, c.log = memstore.New(c.Now, o.Seed), &Log{now: c.Now}
	var err error
	c.api, err = memapi.New(memapi.Options{Store: c.store, Informers: c.informers, Journal: c.log.SinkFor("apiserver"),
		PodMetrics: c.podMetrics})
	if err != nil {
		return nil, err
	}
	c.kubelets = virtualnode.New(virtualnode.Options{Client: c.api.Client(), Now: c.Now, Model: o.Model,
		Attachable: c.attachable})
	if c.scheduler, err = scheduler.NewManual(ctx, scheduler.Options{Client: c.api.Client(), Informers: c.informers,
		Config: o.Scheduler, Journal: c.log.SinkFor("scheduler"), Seed: o.Seed}, c.Now); err != nil {
		return nil, err
	}
	if err := c.makeControllers(o); err != nil {
		return nil, err
	}
	if err := c.load(ctx, o.Objects); err != nil {
		return nil, err
	}
	c.usage.model.Measured(c.pods())
	if o.Heartbeats {
		c.At(c.clock, c.heartbeat)
	}
	return c, nil
}

// Close ends what admission plugins and the scheduler run beside.
func (c *Cluster) Close() {
	c.api.Close()
	c.scheduler.Close()
}

// Now is the clock's time.
func (c *Cluster) Now() time.Time { return c.clock }

// Client returns a client that may do everything in the copy.
func (c *Cluster) Client() kubernetes.Interface { return c.api.Client() }

// Objects returns all objects, sorted by resource and name. They are the Cluster's own: as long as
// it goes on nobody must change them.
func (c *Cluster) Objects() []runtime.Object { return c.store.All() }

// Notes say what of the copy is otherwise than in its cluster.
func (c *Cluster) Notes() []string {
	notes := slices.Clone(c.notes)
	failing := c.kubelets.Failing()
	if n := len(failing); n > mostNamed {
		failing = append(failing[:mostNamed:mostNamed], fmt.Sprintf("and %d more", n-mostNamed))
	}
	if len(failing) > 0 {
		notes = append(notes, "these Pods fail already and stay as they are until they are replaced: "+
			strings.Join(failing, ", "))
	}
	return notes
}

// mostNamed is how many objects a note names.
const mostNamed = 20

// Log returns what the parts stated and recorded.
func (c *Cluster) Log() *Log { return c.log }

// Watch has f called with every change of an object, when the parts learn of it.
func (c *Cluster) Watch(f func(memstore.Change)) { c.watchers = append(c.watchers, f) }

// At has do called when the clock reaches at.
func (c *Cluster) At(at time.Time, do func(ctx context.Context)) {
	i := len(c.timers)
	for i > 0 && c.timers[i-1].at.After(at) {
		i--
	}
	c.timers = append(c.timers, timer{})
	copy(c.timers[i+1:], c.timers[i:])
	c.timers[i] = timer{at, do}
}

// Lose cuts a node off: its kubelet reports nothing any more. Only with Options.Heartbeats does
// anybody notice.
func (c *Cluster) Lose(node string) { c.kubelets.Lose(node) }

// QuietSince returns when an object last changed, reports of nodes aside.
func (c *Cluster) QuietSince() time.Time { return c.changedAt }

// maxStepsAtOnce bounds what may happen at one instant: beyond, parts answer each other without
// end.
const maxStepsAtOnce = 5_000_000

// Run lets the cluster go on until done, which is asked whenever nothing is left to do at an
// instant, or until the end of the horizon. It reports whether done was true. The error is that
// parts answer each other without end, or that ctx ended.
func (c *Cluster) Run(ctx context.Context, horizon time.Time, done func() bool) (bool, error) {
	for {
		if err := c.settle(ctx); err != nil {
			return false, err
		}
		if done() {
			return true, nil
		}
		next := c.nextWake()
		if next.IsZero() || next.After(horizon) {
			c.clock = horizon
			return false, nil
		}
		if next.After(c.clock) {
			c.clock = next
		}
	}
}

// Settle lets all parts do what they have to do at this instant, so that they know what was changed
// before. The error is as of Run. A timer's function must not call it.
func (c *Cluster) Settle(ctx context.Context) error { return c.settle(ctx) }

// settle lets all parts do what they have to do now.
func (c *Cluster) settle(ctx context.Context) error {
	for range maxStepsAtOnce {
		c.deliver(ctx)
		progress, err := c.step(ctx)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !progress:
			return nil
		}
	}
	return fmt.Errorf("at %s the simulated cluster does not come to rest", c.clock.Format(time.RFC3339))
}

// step lets one part take a step, and tells whether one did. Parts that only compute go before
// those whose work takes time in a real cluster: controllers first, then the scheduler, then
// kubelets. So a controller has answered one kubelet's report before the next comes.
func (c *Cluster) step(ctx context.Context) (bool, error) {
	if len(c.timers) > 0 && !c.timers[0].at.After(c.clock) {
		do := c.timers[0].do
		c.timers = c.timers[1:]
		do(ctx)
		return true, nil
	}
	progress := false
	for _, q := range c.controllers {
		for ctx.Err() == nil && q.Step(ctx) {
			c.deliver(ctx)
			progress = true
		}
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if progress || c.scheduler.Step(ctx) {
		return true, nil
	}
	return c.kubelets.Step(ctx)
}

// deliver tells all parts of the changes since the last call, or some of them when ctx ended: then
// the Cluster is of no further use.
func (c *Cluster) deliver(ctx context.Context) {
	for changes := c.store.TakeChanges(); len(changes) > 0; changes = c.store.TakeChanges() {
		sortChanges(changes)
		for _, change := range changes {
			if ctx.Err() != nil {
				return
			}
			c.informers.Deliver(change.Old, change.New)
			old, _ := change.Old.(*corev1.Pod)
			cur, _ := change.New.(*corev1.Pod)
			if old != nil || cur != nil {
				c.kubelets.PodChanged(old, cur)
				c.usage.model.PodChanged(old, cur)
			}
			c.nodeChanged(change)
			c.feed(change)
			c.noteChange(change)
			c.claimChanged(change)
			c.attachmentChanged(change)
			for _, w := range c.watchers {
				w(change)
			}
		}
	}
}

// nodeChanged tells the kubelets what a node's status says of volumes.
func (c *Cluster) nodeChanged(change memstore.Change) {
	if n, ok := change.New.(*corev1.Node); ok {
		c.kubelets.NodeChanged(n.Name, n)
	} else if n, ok := change.Old.(*corev1.Node); ok && change.New == nil {
		c.kubelets.NodeChanged(n.Name, nil)
	}
}

// sortChanges brings changes that were made at once, by requests side by side, into an order that
// is always the same: by type and name, those of one object as they were.
func sortChanges(changes []memstore.Change) {
	if len(changes) < 2 {
		return
	}
	sortBy(changes, func(c memstore.Change) string {
		if c.New == nil {
			return keyOf(c.Old)
		}
		return keyOf(c.New)
	})
}

// sortBy sorts by text, and asks for that of each element once. Equal ones stay as they were.
func sortBy[T any](all []T, text func(T) string) {
	type keyed struct {
		key string
		of  T
	}
	sorted := make([]keyed, len(all))
	for i, of := range all {
		sorted[i] = keyed{text(of), of}
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	for i := range sorted {
		all[i] = sorted[i].of
	}
}

// keyOf is an object's type, namespace and name.
func keyOf(o runtime.Object) string { return reflect.TypeOf(o).String() + " " + nameOf(o) }

// nextWake is when the next part has something to do; zero: never.
func (c *Cluster) nextWake() time.Time {
	var at time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if len(c.timers) > 0 {
		earlier(c.timers[0].at)
	}
	for _, q := range c.controllers {
		earlier(q.Wake())
	}
	earlier(c.scheduler.Wake())
	earlier(c.kubelets.Wake())
	return at
}

// Decode reads an object from JSON, with defaults.
func (c *Cluster) Decode(raw []byte) (runtime.Object, error) { return c.api.Decode(raw) }
