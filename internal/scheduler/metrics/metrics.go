package metrics

import (
	"k8s.io/component-base/metrics"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// Subsystem begins the names of all metrics.
const Subsystem = "scheduler"

// Metrics are the parts, by subject.
type Metrics struct {
	Queue           *Queue
	Cluster         *Cluster
	Events          *Events
	Attempts        *Attempts
	ExtensionPoints *ExtensionPoints
	Plugins         *Plugins
	PodGroups       *PodGroups
	Preemption      *Preemption
	APICalls        *APICalls
	goroutines      *gaugeVec
}

// New registers the metrics of all parts; r may be nil. With genericWorkload (the gate of that
// name) the metrics of PodGroups are served, as upstream's are.
func New(r metrics.KubeRegistry, genericWorkload bool) *Metrics {
	if r == nil {
		r = metrics.NewKubeRegistry()
	}
	m := &Metrics{
		Queue: newQueue(r), Cluster: newCluster(r), Events: newEvents(r), ExtensionPoints: newExtensionPoints(r),
		Plugins: newPlugins(r), PodGroups: newPodGroups(r, genericWorkload),
		Preemption: newPreemption(r, genericWorkload), APICalls: newAPICalls(r),
		goroutines: gauge("goroutines", "Running goroutines by the work they do: binding, preemption.", metrics.BETA,
			"operation"),
	}
	m.Attempts = newAttempts(r, m.ExtensionPoints)
	r.MustRegister(m.goroutines)
	return m
}

// AddGoroutines counts n more goroutines, or fewer, that run an operation: binding, preemption.
func (m *Metrics) AddGoroutines(operation string, n float64) {
	m.goroutines.WithLabelValues(operation).Add(n)
}

// Init sets the gauges that are known from the start; profiles are the samples of nodes by profile.
func (m *Metrics) Init(profiles map[string]schedule.Sample) {
	m.Queue.init()
	m.Cluster.init(profiles)
}

// Cluster is what the scheduler knows of the cluster.
type Cluster struct {
	cache     *gaugeVec
	percent   *gaugeVec
	lastEvent *gaugeVec

	lastCache [3]int
}

func newCluster(r metrics.KubeRegistry) *Cluster {
	c := &Cluster{
		cache: gauge("cache_size", "Nodes, Pods and assumed Pods the scheduler knows.", metrics.ALPHA, "type"),
		percent: gantryGauge("percentage_of_nodes_to_score",
			"Percentage of nodes looked for in force; 0 is the adaptive sample of kube-scheduler.", "profile"),
		lastEvent: gantryGauge("informer_last_event_timestamp_seconds",
			"When the informer last told of a change: how fresh the scheduler's view is.", "resource"),
	}
	r.MustRegister(c.cache, c.percent, c.lastEvent)
	return c
}

func (c *Cluster) init(profiles map[string]schedule.Sample) {
	for _, what := range []string{"nodes", "pods", "assumed_pods"} {
		c.cache.WithLabelValues(what).Set(0)
	}
	for name, s := range profiles {
		c.percent.WithLabelValues(name).Set(float64(max(s.Percent, 0)))
	}
	for _, what := range []string{"nodes", "pods"} {
		c.lastEvent.WithLabelValues(what).SetToCurrentTime()
	}
}

// SetCacheSize sets how much the scheduler cache holds. Calls must not overlap.
func (c *Cluster) SetCacheSize(nodes, pods, assumed int) {
	if now := [3]int{nodes, pods, assumed}; now != c.lastCache {
		c.lastCache = now
		for i, what := range []string{"nodes", "pods", "assumed_pods"} {
			c.cache.WithLabelValues(what).Set(float64(now[i]))
		}
	}
}

// SetLastEvent notes that the informer of a resource (nodes, pods) called a handler now.
func (c *Cluster) SetLastEvent(resource string) {
	c.lastEvent.WithLabelValues(resource).SetToCurrentTime()
}

// stages are where Pods wait.
var stages = [...]queue.Stage{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated}
