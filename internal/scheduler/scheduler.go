package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/extend"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/post"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// bindingsPerWorker is how many bindings may be written at once for each worker that judges (parallelism in the configuration).
const bindingsPerWorker = 6

// parting is how long events that are under way may take when the scheduler ends.
const parting = 2 * time.Second

// patience is how long a plugin that is not built in may take, unless Options say otherwise.
const patience = 30 * time.Second

// Options are what a scheduler is made from.
type Options struct {
	features.Features // GenericWorkload: Pods of a PodGroup are scheduled together; V136: FailedScheduling is told in the words of v1.36

	Client      kubernetes.Interface
	Post        *post.Poster                                // for bindings and their events; nil: Client writes them
	KubeConfig  *rest.Config                                // for plugins that make their own clients; may be nil
	Informers   informers.SharedInformerFactory             // nil: its own; Run starts it
	Dynamic     dynamic.Interface                           // for custom resources; nil: made from KubeConfig, none without
	Config      *schedulerconfig.KubeSchedulerConfiguration // completed (config.Load, config.Default); nil: the default, with every node scored
	Journal     journal.Sink                                // nil: none
	Plugins     map[string]plugins.Factory                  // out-of-tree plugins by name
	Metrics     metrics.KubeRegistry                        // nil: none
	Seed        uint64                                      // of the choice among equal nodes; 0: the time of day
	Patience    time.Duration                               // a plugin that is not built in and takes longer is given up; 0: 30 s
	AtLeast     int                                         // nodes to find feasible whatever the percentage says; 0: 100, as upstream
	ShadowCheck bool                                        // rule twice, from memory and by asking every plugin about every node, and report any difference
	Record      func(*replay.Decision)                      // is given every ruling with all it was made from, which costs more than the ruling; nil: nobody
}

// Scheduler schedules the Pods of its profiles.
type Scheduler struct {
	Options
	profiles map[string]*glue.Profile
	current  *glue.Current
	waiting  *glue.Waiting
	binder   *bind.Binder
	statuses *bind.Statuses
	pods     corelisters.PodLister
	intake
	events  events.EventBroadcaster
	quick   bind.Quick
	meter   *meter
	bell    chan struct{} // capacity one: something may be in the queue
	binding sync.WaitGroup
	cycle
	state
}

// intake is where objects come in.
type intake struct {
	synced []cache.InformerSynced
	custom customResources
	listed atomic.Bool
	gangs  *gangs
	*gear
}

// cycle is what only the scheduling goroutine touches.
type cycle struct {
	*desk
	shadow   *shadow // nil: none is asked for
	startsAt int
	flushed  time.Time
	stirred  bool // there was a cycle after flushed: gauges are set anew a second later
	cycles   int
	offers
	configs map[string]json.RawMessage // of profiles, as decisions are recorded with; empty without Record
}

// offers are bindings that have not left.
type offers struct {
	offered   int
	offeredAt time.Time // the first of them
}

// desk is what rulings work with. After one that broke or never ended, the next gets a new one.
type desk struct {
	boards place.Boards
	memory place.Memory
	pick   *rand.Rand
}

// state is guarded by mu.
type state struct {
	mu        sync.Mutex
	world     *snapshot.World
	queue     *queue.Queue
	nominated *queue.Nominated
}

// New makes a scheduler. The error is about the configuration or a plugin.
func New(o Options) (*Scheduler, error) {
	if o.Config == nil {
		o.Config = config.Default()
		o.Config.PercentageOfNodesToScore = new(int32(100))
	}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	if o.Informers == nil {
		o.Informers = informers.NewSharedInformerFactory(o.Client, 0)
	}
	custom, err := newCustomResources(o)
	if err != nil {
		return nil, err
	}
	gangs, err := newGangs(o)
	if err != nil {
		return nil, err
	}
	if o.GenericWorkload {
		config.EnablePlugin(o.Config, gangscheduling.Name)
	}
	if o.Patience == 0 {
		o.Patience = patience
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	s := &Scheduler{
		Options: o, profiles: map[string]*glue.Profile{}, current: &glue.Current{}, waiting: glue.NewWaiting(), bell: make(chan struct{}, 1),
		events: events.NewBroadcaster(&events.EventSinkImpl{Interface: o.Client.EventsV1()}),
		pods:   o.Informers.Core().V1().Pods().Lister(), quick: bind.NewQuick(o.Post),
		intake: intake{custom: custom, gangs: gangs, gear: &gear{}},
		cycle:  cycle{desk: &desk{pick: rand.New(rand.NewPCG(o.Seed, 0))}, configs: map[string]json.RawMessage{}},
		state:  state{world: snapshot.NewWorld(), nominated: queue.NewNominated()},
	}
	s.current.Standing = s.standing
	s.meter = newMeter(o.Metrics, o.GenericWorkload)
	if o.ShadowCheck {
		s.shadow = newShadow(o.Metrics)
	}
	s.statuses = bind.NewStatuses(o.Client, s.latest)
	s.statuses.Calls, s.statuses.Quick = s.meter.work.calls.told(), s.quick
	s.binder = &bind.Binder{Ledger: ledger{s}, Done: s.decided, Slots: make(chan struct{}, bindingsPerWorker*max(int(*o.Config.Parallelism), 1))}
	if err := s.makeProfiles(); err != nil {
		return nil, err
	}
	if err := s.watch(); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	samples := map[string]place.Sample{}
	for name, p := range s.profiles {
		samples[name] = s.sample(p)
		s.meter.asked.seats(p.Judges)
	}
	s.meter.begin(samples)
	return s, nil
}

func (s *Scheduler) makeProfiles() error {
	recorders := map[string]events.EventRecorderLogger{}
	shared, err := s.gear.open(s.Options, func(profile string) events.EventRecorderLogger { return recorders[profile] })
	if err != nil {
		return err
	}
	shared.Groups, s.current.Groups = s.gangs.groups(), s.gangs.groups()
	shared.Rolls = glue.Rolls{Pick: func(n int) int { return s.pick.IntN(n) }, Pledged: pledges{s}}
	deps := glue.Deps{
		Shared: shared,
		Client: s.Client, KubeConfig: s.KubeConfig, Informers: s.Informers, Dynamic: s.custom.factory, Waiting: s.waiting, World: s.current, Limit: s.Patience,
		Recorder:  func(profile string) events.EventRecorderLogger { return recorders[profile] },
		Parallel:  glue.Parallelizer{Workers: int(*s.Config.Parallelism)},
		Nominator: nominator{s}, Activator: activator{s},
		SelectorOf: newOwners(s.Informers).selectorOf,
		Told:       glue.Told{Parked: s.parked, Preempting: s.preempting, Preempted: s.preempted, Searched: s.meter.work.hunts.searched, Evicted: s.meter.evicted, Calls: s.meter.work.calls.told(), Took: s.meter.span, Go: s.beside("preemption")},
	}
	if s.shadow != nil {
		deps.Told.Doubted = s.shadow.doubted(s.Journal)
	}
	if deps.Extenders, err = extend.NewAll(s.Config.Extenders); err != nil {
		return err
	}
	factories := bind.Factories(s.Plugins, s.quick)
	hints := map[string][]queue.Hint{}
	orders := map[string]queue.Order{}
	for i := range s.Config.Profiles {
		cfg := &s.Config.Profiles[i]
		leaveToExtenders(cfg, s.Config.Extenders)
		recorders[*cfg.SchedulerName] = s.events.NewRecorder(scheme.Scheme, *cfg.SchedulerName)
		p, err := glue.NewProfile(context.Background(), cfg, factories, deps)
		if err != nil {
			return err
		}
		if s.Record != nil {
			if s.configs[p.Name], err = replay.Configured(s.Config, i); err != nil {
				return err
			}
		}
		s.profiles[p.Name], hints[p.Name] = p, s.meter.timed(p.Hints, func() framework.ClusterEvent { return s.queue.Asked() })
		orders[p.Name] = queue.Order{Name: p.Sort.Name(), Less: p.Sort.Less}
	}
	s.queue = queue.New(queue.Options{
		Less: prioritysort.New().Less, Orders: orders, Hints: hints, Log: klog.Background(), Gate: s.gate,
		InitialBackoff: time.Duration(*s.Config.PodInitialBackoffSeconds) * time.Second,
		MaxBackoff:     time.Duration(*s.Config.PodMaxBackoffSeconds) * time.Second,
	})
	return nil
}

// beside runs work beside the cycles, counted, and waited for when the scheduler ends.
func (s *Scheduler) beside(operation string) func(func()) {
	return func(work func()) {
		s.meter.goroutine(operation, 1)
		s.binding.Go(func() {
			defer s.meter.goroutine(operation, -1)
			work()
		})
	}
}

// Ready tells whether nodes and Pods have been listed, so that Pods are scheduled.
func (s *Scheduler) Ready() bool { return s.listed.Load() }

// gate asks the Pod's profile whether it may enter the queue.
func (s *Scheduler) gate(p *v1.Pod) *framework.Status {
	return s.profiles[p.Spec.SchedulerName].PreEnqueue(context.Background(), p)
}

// settle waits for bindings under way; those that a plugin holds up which does not end are left.
func (s *Scheduler) settle(ctx context.Context) {
	over := make(chan struct{})
	go func() {
		s.binding.Wait()
		close(over)
	}()
	t := time.NewTimer(s.Patience)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		klog.FromContext(ctx).Info("Bindings under way do not end and are left", "after", s.Patience)
	}
}

// Run schedules until ctx ends, then waits for bindings under way. It returns an error only when it could not begin.
func (s *Scheduler) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	if err := s.events.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("scheduler: recording events: %w", err)
	}
	defer s.events.Shutdown()
	defer s.gear.stop()
	s.Informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return nil // ended before it began
	}
	s.Informers.WaitForCacheSync(ctx.Done()) // those that plugins look up and get no events of
	s.custom.start(ctx)
	s.listed.Store(true)
	for name, p := range s.profiles {
		logger.V(2).Info("Scheduling profile ready", "schedulerName", name, "plugins", p.Names())
	}
	var writer sync.WaitGroup
	writer.Go(func() { s.statuses.Run(ctx) })
	if s.gangs != nil {
		writer.Go(func() { s.gangs.statuses.Run(ctx) })
	}
	defer writer.Wait()
	defer s.lastWords(ctx)
	defer s.settle(ctx)
	defer s.flush() // what the last cycle offered
	for ctx.Err() == nil {
		if e := s.next(ctx); e != nil {
			s.schedule(ctx, e)
		}
	}
	return nil
}

// lastWords lets events be written that are under way when the scheduler ends.
func (s *Scheduler) lastWords(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	s.quick.Close(ctx)
}

// next waits for a Pod to schedule; nil when ctx ended or it should be called again.
func (s *Scheduler) next(ctx context.Context) *queue.Entry {
	s.mu.Lock()
	now := time.Now()
	if now.Sub(s.flushed) >= time.Second {
		s.tell(s.queue.Flush(now))
		s.flushed, s.stirred = now, false
		s.meter.knows(s.world.Count())
		s.meter.refusals(s.queue.Refused())
		s.meter.noted(s.queue.InFlightEvents())
		s.meter.entities(s.queue.Entities(s.gangs.names()))
	}
	e := s.queue.Pop(now)
	var wake time.Time
	if e == nil {
		wake = s.queue.Wake()
		if soon := s.flushed.Add(time.Second); s.stirred && (wake.IsZero() || soon.Before(wake)) {
			wake = soon
		}
	}
	s.meter.pending(s.queue.Count())
	s.mu.Unlock()
	if e != nil {
		s.stirred = true
		s.lateOffer(now)
		return e
	}
	s.flush()
	var timer <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(time.Until(wake))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-s.bell:
	case <-timer:
		s.flushed = time.Time{}
	case <-ctx.Done():
	}
	return nil
}

// tell writes moves to the journal and rings the bell; mu is held.
func (s *Scheduler) tell(moves []queue.Move) {
	s.meter.came(moves, func(m queue.Move) string { return s.gangs.of(m.Entry.Pod()) })
	for _, m := range moves {
		s.Journal.Put(ref(m.Entry.Pod()), queued(m))
		if m.Ignored {
			continue
		}
		s.meter.moved(m)
		if m.To != queue.Active && m.To != queue.Backoff {
			continue
		}
		select {
		case s.bell <- struct{}{}:
		default:
		}
	}
}
