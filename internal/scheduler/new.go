package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/extender"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/metrics"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/prioritysort"
	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// bindingsPerWorker is how many bindings may be written at once for each worker of Filter and Score
// (parallelism in the configuration).
const bindingsPerWorker = 6

// wiring is what New joins the parts of a scheduler with.
type wiring struct {
	o           Options
	metrics     *metrics.Metrics
	state       *cacheAndQueue
	facts       *attemptFacts
	goroutines  *goroutines
	writer      bind.APIWriter
	events      events.EventBroadcaster
	current     *frameworkruntime.CurrentSnapshot
	waitingPods *frameworkruntime.WaitingPods
	nominations nominations
	custom      *customResources
	devices     *devices
	shadow      *shadowCheck // nil: none is asked for
	profiles    map[string]*frameworkruntime.Profile
	configs     map[string]json.RawMessage // of profiles, as decisions are recorded with; empty without Record
}

// New makes a scheduler. The error is about the configuration or a plugin, or that the API server
// lacks what a feature needs.
func New(o Options) (*Scheduler, error) {
	w, err := newWiring(o)
	if err != nil {
		return nil, err
	}
	return w.build()
}

// newWiring makes the parts that others are joined with.
func newWiring(o Options) (*wiring, error) {
	o.complete()
	custom, err := newCustomResources(o)
	if err != nil {
		return nil, err
	}
	groups, err := newPodGroups(o)
	if err != nil {
		return nil, err
	}
	m := metrics.New(o.Metrics, o.GenericWorkload)
	w := &wiring{
		o: o, metrics: m, state: newCacheAndQueue(groups, o.Journal, m), goroutines: newGoroutines(o.PluginTimeout, m),
		writer:  bind.NewAPIWriter(o.Writer),
		events:  events.NewBroadcaster(&events.EventSinkImpl{Interface: o.Client.EventsV1()}),
		current: &frameworkruntime.CurrentSnapshot{PodGroupStore: groups.podGroupStates()},
		custom:  custom, devices: &devices{}, waitingPods: frameworkruntime.NewWaitingPods(),
		profiles: map[string]*frameworkruntime.Profile{}, configs: map[string]json.RawMessage{},
	}
	w.current.AssignedPod = w.state.assignedPod
	w.facts = newAttemptFacts(o.Journal, w.writer, m.Attempts)
	w.nominations = newNominations(w.state)
	if o.ShadowCheck {
		w.shadow = newShadowCheck(o.Metrics, o.Journal)
	}
	return w, nil
}

// build makes the rest of the scheduler.
func (w *wiring) build() (*Scheduler, error) {
	finder := w.newAlgorithm()
	if err := w.makeProfiles(finder.intN); err != nil {
		return nil, err
	}
	handlers := newEventHandlers(w)
	if err := handlers.addAll(); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	samples := map[string]schedule.Sample{}
	for name, p := range w.profiles {
		samples[name] = finder.nodesToScore(p)
		w.metrics.Plugins.Init(p.Plugins)
	}
	w.metrics.Init(samples)
	return w.scheduler(handlers, finder), nil
}

// newAlgorithm is what finds nodes.
func (w *wiring) newAlgorithm() *algorithm {
	s := &algorithm{
		source: w.state, current: w.current, check: uncheckedResults{}, recorder: noRecorder{}, metrics: w.metrics,
		nominations: w.nominations, pluginTimeout: w.o.PluginTimeout, percentage: w.o.Config.PercentageOfNodesToScore,
		minFeasible: w.o.MinFeasibleNodes, scratch: newScratch(w.o.Seed),
	}
	if w.shadow != nil {
		s.check = w.shadow
	}
	if w.o.Record != nil {
		s.nominations = nil // a recording holds on to what it was given
		s.recorder = &recorder{record: w.o.Record, configs: w.configs, devices: w.devices,
			namespaces: w.o.Informers.Core().V1().Namespaces().Lister()}
	}
	return s
}

// scheduler joins the cycles with the handlers that feed them and with what finds nodes.
func (w *wiring) scheduler(handlers *eventHandlers, finder podScheduler) *Scheduler {
	latest := latestPod(w.o.Informers.Core().V1().Pods().Lister())
	statuses := bind.NewPodStatusWriter(w.o.Client, latest)
	statuses.APICalls, statuses.Writer = w.metrics.APICalls.Hooks(), w.writer
	failed := newFailures(w.state, statuses, w.facts, latest)
	binder := &bind.Binder{Cache: w.state, Done: w.state.done,
		Slots: make(chan struct{}, bindingsPerWorker*max(int(*w.o.Config.Parallelism), 1))}
	binding := &bindingCycle{binder: binder, statuses: statuses, writer: w.writer, queue: w.state, failures: failed,
		facts: w.facts, goroutines: w.goroutines}
	cycle := &schedulingCycle{profiles: w.profiles, queue: w.state, wake: w.state.wake, algorithm: finder,
		binder: binder, bindings: binding, failures: failed, facts: w.facts, emulates136: w.o.V136}
	s := &Scheduler{handlers: handlers, cycle: cycle, goroutines: w.goroutines, statuses: []runner{statuses},
		events: w.events, writer: w.writer, profiles: w.profiles}
	if groups := w.state.podGroups; groups != nil {
		s.statuses = append(s.statuses, groups.statuses)
		cycle.podGroups = &podGroupCycle{profiles: w.profiles, queue: w.state, current: w.current,
			algorithm: finder, binder: binder, bindings: binding, failures: failed, facts: w.facts,
			statuses: groups.statuses, metrics: w.metrics.PodGroups}
	}
	return s
}

// makeProfiles makes the profiles and, from their queue sort plugins and queueing hints, the queue.
// pickStart is the choice among n of who searches for victims; the scheduling goroutine asks.
func (w *wiring) makeProfiles(pickStart func(n int) int) error {
	recorders := map[string]events.EventRecorderLogger{}
	deps, err := w.pluginDeps(func(profile string) events.EventRecorderLogger { return recorders[profile] })
	if err != nil {
		return err
	}
	deps.PreemptionInputs = frameworkruntime.PreemptionInputs{PickStart: pickStart, Nominations: w.nominations}
	factories := bind.Factories(w.o.Plugins, w.writer)
	hints := map[string][]queue.QueueingHint{}
	orders := map[string]queue.ProfileLess{}
	cfg := w.o.Config
	for i := range cfg.Profiles {
		of := &cfg.Profiles[i]
		ignoreExtenderResources(of, cfg.Extenders)
		recorders[*of.SchedulerName] = w.events.NewRecorder(scheme.Scheme, *of.SchedulerName)
		p, err := frameworkruntime.NewProfile(context.Background(), of, factories, deps)
		if err != nil {
			return err
		}
		if w.o.Record != nil {
			if w.configs[p.Name], err = replay.ProfileConfig(cfg, i); err != nil {
				return err
			}
		}
		w.profiles[p.Name], hints[p.Name] = p,
			w.metrics.Events.TimeHints(p.QueueingHints,
				func() framework.ClusterEvent { return w.state.queue.EventInHand() })
		orders[p.Name] = queue.ProfileLess{Name: p.QueueSort.Name(), Less: p.QueueSort.Less}
	}
	w.state.queue = queue.New(queue.Options{
		Less: prioritysort.New().Less, ProfileLess: orders, QueueingHints: hints, Log: klog.Background(),
		PreEnqueue: func(p *v1.Pod) *framework.Status {
			return w.profiles[p.Spec.SchedulerName].RunPreEnqueuePlugins(context.Background(), p)
		},
		InitialBackoff: time.Duration(*cfg.PodInitialBackoffSeconds) * time.Second,
		MaxBackoff:     time.Duration(*cfg.PodMaxBackoffSeconds) * time.Second,
	})
	return nil
}

// pluginDeps is what all profiles give their plugins. recorder is that of a profile.
func (w *wiring) pluginDeps(recorder func(profile string) events.EventRecorderLogger) (frameworkruntime.Deps, error) {
	shared, err := w.devices.start(w.o, recorder)
	if err != nil {
		return frameworkruntime.Deps{}, err
	}
	shared.PodGroups = w.state.podGroups.podGroupStates()
	deps := frameworkruntime.Deps{
		SharedState: shared,
		Client:      w.o.Client, KubeConfig: w.o.KubeConfig, Informers: w.o.Informers, Dynamic: w.custom.factory,
		WaitingPods: w.waitingPods, Snapshot: w.current, PluginTimeout: w.o.PluginTimeout, Recorder: recorder,
		Parallelizer: frameworkruntime.Parallelizer{Workers: int(*w.o.Config.Parallelism)},
		Nominator:    w.nominations, Activator: w.state,
		SelectorOf: newSelectorFinder(w.o.Informers).selectorOf,
		Hooks: frameworkruntime.Hooks{WaitingOnPermit: w.facts.waitingOnPermit, Preempting: w.facts.preempting,
			Preempted: w.facts.preempted, PreemptionSearched: w.metrics.Preemption.ObserveSearch,
			Evicted: w.metrics.Preemption.ObserveEviction, APICalls: w.metrics.APICalls.Hooks(),
			ObservePoint: w.metrics.ExtensionPoints.ObservePoint,
			Go:           func(work func()) { w.goroutines.start("preemption", work) }},
	}
	if w.shadow != nil {
		deps.Hooks.ShadowCheckFailed = w.shadow.report
	}
	deps.Extenders, err = extender.NewExtenders(w.o.Config.Extenders)
	return deps, err
}
