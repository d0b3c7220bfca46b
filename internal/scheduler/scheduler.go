package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/internal/scheduler/bind"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
)

// shutdownTimeout is how long events that are under way may take when the scheduler ends.
const shutdownTimeout = 2 * time.Second

// defaultPluginTimeout is how long a plugin that is not built in may take, unless Options say
// otherwise.
const defaultPluginTimeout = 30 * time.Second

// Options are what a scheduler is made from.
type Options struct {
	// GenericWorkload: Pods of a PodGroup are scheduled together; V136: FailedScheduling is in the
	// words of v1.36
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
	// how long a plugin that is not built in may take; 0: 30 s
	PluginTimeout time.Duration
	// nodes to find feasible whatever the percentage says; 0: 100, as upstream
	MinFeasibleNodes int
	// schedule each Pod twice, with cached results and by asking every plugin about every node, and
	// report any difference
	ShadowCheck bool
	// called with every decision and all it was made from, which costs more than the decision; nil:
	// not recorded
	Record func(*replay.Decision)
}

// complete fills in the defaults.
func (o *Options) complete() {
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
	if o.GenericWorkload {
		config.EnablePlugin(o.Config, gangscheduling.Name)
	}
	if o.PluginTimeout == 0 {
		o.PluginTimeout = defaultPluginTimeout
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
}

// runner is a part that works until ctx ends, or once what is pending.
type runner interface {
	Run(ctx context.Context)
	WritePending(ctx context.Context)
}

// informerHandlers are the event handlers as the scheduler runs them.
type informerHandlers interface {
	start(ctx context.Context) bool
	ready() bool
	stop()
}

// Scheduler schedules the Pods of its profiles. It starts and ends the parts that do so: informers
// feed cache and queue (eventHandlers, cacheAndQueue), the scheduling cycle finds nodes
// (schedulingCycle, algorithm, podGroupCycle), the binding cycle binds (bindingCycle), and failures
// go back to the queue (failures).
type Scheduler struct {
	handlers   informerHandlers
	cycle      interface{ run(ctx context.Context) }
	goroutines *goroutines
	statuses   []runner // write statuses of Pods and PodGroups
	events     events.EventBroadcaster
	writer     bind.APIWriter
	profiles   map[string]*frameworkruntime.Profile
}

// Ready tells whether nodes and Pods have been listed, so that Pods are scheduled.
func (s *Scheduler) Ready() bool { return s.handlers.ready() }

// Run schedules until ctx ends, then waits for bindings under way. The error is that it could not
// begin.
func (s *Scheduler) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	if err := s.events.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("scheduler: recording events: %w", err)
	}
	defer s.events.Shutdown()
	defer s.handlers.stop()
	if !s.handlers.start(ctx) {
		return nil // ended before it began
	}
	for name, p := range s.profiles {
		logger.V(2).Info("Scheduling profile ready", "schedulerName", name, "plugins", p.PluginNames())
	}
	var writers sync.WaitGroup
	for _, w := range s.statuses {
		writers.Go(func() { w.Run(ctx) })
	}
	defer writers.Wait()
	defer s.flushEvents(ctx)
	defer s.goroutines.wait(ctx)
	s.cycle.run(ctx)
	return nil
}

// flushEvents lets events be written that are under way when the scheduler ends.
func (s *Scheduler) flushEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	s.writer.Close(ctx)
}
