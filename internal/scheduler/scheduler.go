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
	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/extender"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// bindingsPerWorker is how many bindings may be written at once for each worker that judges
// (parallelism in the configuration).
const bindingsPerWorker = 6

// shutdownTimeout is how long events that are under way may take when the scheduler ends.
const shutdownTimeout = 2 * time.Second

// defaultPluginTimeout is how long a plugin that is not built in may take, unless Options say
// otherwise.
const defaultPluginTimeout = 30 * time.Second

// Options are what a scheduler is made from.
type Options struct {
	// GenericWorkload: Pods of a PodGroup are scheduled together; V136: FailedScheduling is told in
	// the words of v1.36
	features.Features

	Client kubernetes.Interface
	// for bindings and their events; nil: Client writes them
	Writer     *apiwriter.Writer
	KubeConfig *rest.Config                    // for plugins that make their own clients; may be nil
	Informers  informers.SharedInformerFactory // nil: its own; Run starts it
	// for custom resources; nil: made from KubeConfig, none without
	Dynamic dynamic.Interface
	// completed (config.Load, config.Default); nil: the default, with every node scored
	Config  *schedulerconfig.KubeSchedulerConfiguration
	Journal journal.Sink               // nil: none
	Plugins map[string]plugins.Factory // out-of-tree plugins by name
	Metrics metrics.KubeRegistry       // nil: none
	Seed    uint64                     // of the choice among equal nodes; 0: the time of day
	// a plugin that is not built in and takes longer is given up; 0: 30 s
	PluginTimeout time.Duration
	// nodes to find feasible whatever the percentage says; 0: 100, as upstream
	MinFeasibleNodes int
	// rule twice, from memory and by asking every plugin about every node, and report any
	// difference
	ShadowCheck bool
	// is given every ruling with all it was made from, which costs more than the ruling; nil:
	// nobody
	Record func(*replay.Decision)
}

// Scheduler schedules the Pods of its profiles.
type Scheduler struct {
	Options
	profiles        map[string]*frameworkruntime.Profile
	currentSnapshot *frameworkruntime.CurrentSnapshot
	waitingPods     *frameworkruntime.WaitingPods
	binder          *bind.Binder
	statuses        *bind.PodStatusWriter
	pods            corelisters.PodLister
	eventHandlers
	events   events.EventBroadcaster
	writer   bind.APIWriter
	metrics  *schedulerMetrics
	wake     chan struct{} // capacity one: something may be in the queue
	bindings sync.WaitGroup
	schedulingCycle
	lockedState
}

// eventHandlers is where objects come in.
type eventHandlers struct {
	synced    []cache.InformerSynced
	custom    customResources
	listed    atomic.Bool
	podGroups *podGroups
	*devices
}

// schedulingCycle is what only the scheduling goroutine touches.
type schedulingCycle struct {
	*scratch
	shadowCheck        *shadowCheck // nil: none is asked for
	nextStartNodeIndex int
	lastFlush          time.Time
	eventsSinceFlush   bool // there was a cycle after flushed: gauges are set anew a second later
	cycleCount         int
	bindBatch
	configs map[string]json.RawMessage // of profiles, as decisions are recorded with; empty without Record
}

// bindBatch are bindings that have not left.
type bindBatch struct {
	batched   int
	batchedAt time.Time // the first of them
}

// scratch is what rulings work with. After one that broke or never ended, the next gets a new one.
type scratch struct {
	buffers schedule.Buffers
	eqCache schedule.EquivalenceCache
	rand    *rand.Rand
}

// lockedState is guarded by mu.
type lockedState struct {
	mu        sync.Mutex
	cache     *snapshot.Cache
	queue     *queue.Queue
	nominator *queue.Nominator
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
	gangs, err := newPodGroups(o)
	if err != nil {
		return nil, err
	}
	if o.GenericWorkload {
		config.EnablePlugin(o.Config, gangscheduling.Name)
	}
	if o.PluginTimeout == 0 {
		o.PluginTimeout = defaultPluginTimeout
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	s := &Scheduler{
		Options: o, profiles: map[string]*frameworkruntime.Profile{},
		currentSnapshot: &frameworkruntime.CurrentSnapshot{}, waitingPods: frameworkruntime.NewWaitingPods(),
		wake:   make(chan struct{}, 1),
		events: events.NewBroadcaster(&events.EventSinkImpl{Interface: o.Client.EventsV1()}),
		pods:   o.Informers.Core().V1().Pods().Lister(), writer: bind.NewAPIWriter(o.Writer),
		eventHandlers: eventHandlers{custom: custom, podGroups: gangs, devices: &devices{}},
		schedulingCycle: schedulingCycle{scratch: &scratch{rand: rand.New(rand.NewPCG(o.Seed, 0))},
			configs: map[string]json.RawMessage{}},
		lockedState: lockedState{cache: snapshot.NewCache(), nominator: queue.NewNominator()},
	}
	s.currentSnapshot.AssignedPod = s.assignedPod
	s.metrics = newSchedulerMetrics(o.Metrics, o.GenericWorkload)
	if o.ShadowCheck {
		s.shadowCheck = newShadowCheck(o.Metrics)
	}
	s.statuses = bind.NewPodStatusWriter(o.Client, s.latestPod)
	s.statuses.APICalls, s.statuses.Writer = s.metrics.async.apiCalls.hooks(), s.writer
	s.binder = &bind.Binder{Cache: assumeCache{s}, Done: s.doneWithQueue,
		Slots: make(chan struct{}, bindingsPerWorker*max(int(*o.Config.Parallelism), 1))}
	if err := s.makeProfiles(); err != nil {
		return nil, err
	}
	if err := s.addAllEventHandlers(); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	samples := map[string]schedule.Sample{}
	for name, p := range s.profiles {
		samples[name] = s.nodesToScore(p)
		s.metrics.pluginEvaluations.evaluationsOf(p.Plugins)
	}
	s.metrics.setProfiles(samples)
	return s, nil
}

func (s *Scheduler) makeProfiles() error {
	recorders := map[string]events.EventRecorderLogger{}
	shared, err := s.devices.start(s.Options,
		func(profile string) events.EventRecorderLogger { return recorders[profile] })
	if err != nil {
		return err
	}
	shared.PodGroups, s.currentSnapshot.PodGroupStore = s.podGroups.podGroupStates(), s.podGroups.podGroupStates()
	shared.PreemptionInputs = frameworkruntime.PreemptionInputs{PickStart: func(n int) int { return s.rand.IntN(n) },
		Nominations: nominations{s}}
	deps := frameworkruntime.Deps{
		SharedState: shared,
		Client:      s.Client, KubeConfig: s.KubeConfig, Informers: s.Informers, Dynamic: s.custom.factory,
		WaitingPods: s.waitingPods, Snapshot: s.currentSnapshot, PluginTimeout: s.PluginTimeout,
		Recorder:     func(profile string) events.EventRecorderLogger { return recorders[profile] },
		Parallelizer: frameworkruntime.Parallelizer{Workers: int(*s.Config.Parallelism)},
		Nominator:    nominator{s}, Activator: activator{s},
		SelectorOf: newSelectorFinder(s.Informers).selectorOf,
		Hooks: frameworkruntime.Hooks{WaitingOnPermit: s.recordPermitWait, Preempting: s.recordPreempting,
			Preempted: s.recordPreempted, PreemptionSearched: s.metrics.async.preemption.observeSearch,
			Evicted: s.metrics.observeEviction, APICalls: s.metrics.async.apiCalls.hooks(),
			ObservePoint: s.metrics.observePoint, Go: s.goroutine("preemption")},
	}
	if s.shadowCheck != nil {
		deps.Hooks.ShadowCheckFailed = s.shadowCheck.reporter(s.Journal)
	}
	if deps.Extenders, err = extender.NewExtenders(s.Config.Extenders); err != nil {
		return err
	}
	factories := bind.Factories(s.Plugins, s.writer)
	hints := map[string][]queue.QueueingHint{}
	orders := map[string]queue.ProfileLess{}
	for i := range s.Config.Profiles {
		cfg := &s.Config.Profiles[i]
		ignoreExtenderResources(cfg, s.Config.Extenders)
		recorders[*cfg.SchedulerName] = s.events.NewRecorder(scheme.Scheme, *cfg.SchedulerName)
		p, err := frameworkruntime.NewProfile(context.Background(), cfg, factories, deps)
		if err != nil {
			return err
		}
		if s.Record != nil {
			if s.configs[p.Name], err = replay.ProfileConfig(s.Config, i); err != nil {
				return err
			}
		}
		s.profiles[p.Name], hints[p.Name] = p,
			s.metrics.timeHints(p.QueueingHints, func() framework.ClusterEvent { return s.queue.EventInHand() })
		orders[p.Name] = queue.ProfileLess{Name: p.QueueSort.Name(), Less: p.QueueSort.Less}
	}
	s.queue = queue.New(queue.Options{
		Less: prioritysort.New().Less, ProfileLess: orders, QueueingHints: hints, Log: klog.Background(),
		PreEnqueue:     s.runPreEnqueuePlugins,
		InitialBackoff: time.Duration(*s.Config.PodInitialBackoffSeconds) * time.Second,
		MaxBackoff:     time.Duration(*s.Config.PodMaxBackoffSeconds) * time.Second,
	})
	return nil
}

// goroutine runs work beside the cycles, counted, and waited for when the scheduler ends.
func (s *Scheduler) goroutine(operation string) func(func()) {
	return func(work func()) {
		s.metrics.addGoroutines(operation, 1)
		s.bindings.Go(func() {
			defer s.metrics.addGoroutines(operation, -1)
			work()
		})
	}
}

// Ready tells whether nodes and Pods have been listed, so that Pods are scheduled.
func (s *Scheduler) Ready() bool { return s.listed.Load() }

// runPreEnqueuePlugins asks the Pod's profile whether it may enter the queue.
func (s *Scheduler) runPreEnqueuePlugins(p *v1.Pod) *framework.Status {
	return s.profiles[p.Spec.SchedulerName].RunPreEnqueuePlugins(context.Background(), p)
}

// waitForBindings waits for bindings under way; those that a plugin holds up which does not end are
// left.
func (s *Scheduler) waitForBindings(ctx context.Context) {
	over := make(chan struct{})
	go func() {
		s.bindings.Wait()
		close(over)
	}()
	t := time.NewTimer(s.PluginTimeout)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		klog.FromContext(ctx).Info("Bindings under way do not end and are left", "after", s.PluginTimeout)
	}
}

// Run schedules until ctx ends, then waits for bindings under way. It returns an error only when it
// could not begin.
func (s *Scheduler) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	if err := s.events.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("scheduler: recording events: %w", err)
	}
	defer s.events.Shutdown()
	defer s.devices.stop()
	s.Informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return nil // ended before it began
	}
	s.Informers.WaitForCacheSync(ctx.Done()) // those that plugins look up and get no events of
	s.custom.start(ctx)
	s.listed.Store(true)
	for name, p := range s.profiles {
		logger.V(2).Info("Scheduling profile ready", "schedulerName", name, "plugins", p.PluginNames())
	}
	var writer sync.WaitGroup
	writer.Go(func() { s.statuses.Run(ctx) })
	if s.podGroups != nil {
		writer.Go(func() { s.podGroups.statuses.Run(ctx) })
	}
	defer writer.Wait()
	defer s.flushEvents(ctx)
	defer s.waitForBindings(ctx)
	defer s.flushBindings() // what the last cycle offered
	for ctx.Err() == nil {
		if e := s.nextPod(ctx); e != nil {
			s.scheduleOne(ctx, e)
		}
	}
	return nil
}

// flushEvents lets events be written that are under way when the scheduler ends.
func (s *Scheduler) flushEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	s.writer.Close(ctx)
}

// nextPod waits for a Pod to schedule; nil when ctx ended or it should be called again.
func (s *Scheduler) nextPod(ctx context.Context) *queue.Entry {
	s.mu.Lock()
	now := time.Now()
	if now.Sub(s.lastFlush) >= time.Second {
		s.recordMoves(s.queue.Flush(now))
		s.lastFlush, s.eventsSinceFlush = now, false
		s.metrics.setCacheSize(s.cache.Counts())
		s.metrics.setUnschedulable(s.queue.UnschedulablePodsByPlugin())
		s.metrics.setInFlightEvents(s.queue.InFlightEvents())
		s.metrics.setEntities(s.queue.EntityCounts(s.podGroups.keyFunc()))
	}
	e := s.queue.Pop(now)
	var wake time.Time
	if e == nil {
		wake = s.queue.NextFlush()
		if soon := s.lastFlush.Add(time.Second); s.eventsSinceFlush && (wake.IsZero() || soon.Before(wake)) {
			wake = soon
		}
	}
	s.metrics.setPending(s.queue.StageCounts())
	s.mu.Unlock()
	if e != nil {
		s.eventsSinceFlush = true
		s.flushLateBindings(now)
		return e
	}
	s.flushBindings()
	var timer <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(time.Until(wake))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-s.wake:
	case <-timer:
		s.lastFlush = time.Time{}
	case <-ctx.Done():
	}
	return nil
}

// recordMoves writes moves to the journal and rings the bell; mu is held.
func (s *Scheduler) recordMoves(moves []queue.Move) {
	s.metrics.observeIncoming(moves, func(m queue.Move) string { return s.podGroups.keyOf(m.Entry.Pod()) })
	for _, m := range moves {
		s.Journal.Put(podRef(m.Entry.Pod()), queuedFact(m))
		if m.Ignored {
			continue
		}
		s.metrics.observeQueueMove(m)
		if m.Stage != queue.Active && m.Stage != queue.Backoff {
			continue
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}
