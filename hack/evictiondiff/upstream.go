package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics/legacyregistry"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/utils/clock"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func init() { legacyregistry.MustRegister(metrics.Evictions, metrics.EvictionStatsAge) }

// stepClock stands still; tickers tick at once, so that nobody waits for Pods to be cleaned up.
type stepClock struct {
	clock.RealClock
	now time.Time
}

func (c *stepClock) Now() time.Time                  { return c.now }
func (c *stepClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }
func (c *stepClock) NewTicker(time.Duration) clock.Ticker {
	return c.RealClock.NewTicker(time.Microsecond)
}

// node answers upstream's questions as a scenario says, one step at a time.
type node struct {
	s       *Scenario
	clock   *stepClock
	step    *Step
	figures Figures
	pods    []*v1.Pod
	arrived chan struct{} // the manager asks for the Pods: the last look is over
	proceed chan struct{}
	out     *Answer
}

// run has upstream's manager look at the node at every step and writes its answers.
func run(s *Scenario) error {
	n := &node{s: s, clock: &stepClock{now: begin}, arrived: make(chan struct{}), proceed: make(chan struct{})}
	c := s.Config
	var enforced []string
	if c.EnforcePods {
		enforced = []string{"pods"}
	}
	thresholds, err := eviction.ParseThresholdConfig(enforced, c.Hard, c.Soft, c.Grace, c.Reclaim)
	if err != nil {
		return err
	}
	m, _ := eviction.NewManager(n, eviction.Config{PressureTransitionPeriod: time.Duration(c.Transition) * time.Second,
		MaxPodGracePeriodSeconds: c.MaxPodGrace, Thresholds: thresholds}, n.kill, imageGC{n}, containerGC{n}, n,
		&v1.ObjectReference{Kind: "Node", Name: "n1"}, n.clock, false)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	m.Start(ctx, n, n.activePods, func(*v1.Pod) bool { return true }, time.Nanosecond)
	<-n.arrived
	// The manager knows the thresholds of containerfs from its second look on.
	n.step, n.figures, n.out = &Step{}, plenty(), &Answer{}
	n.clock.now = begin.Add(-time.Hour)
	n.proceed <- struct{}{}
	<-n.arrived
	for i := range s.Steps {
		n.step = &s.Steps[i]
		n.out, n.figures = &n.step.Answer, n.step.Figures
		*n.out = Answer{}
		n.clock.now = begin.Add(time.Duration(n.step.At) * time.Second)
		before := evictions()
		n.proceed <- struct{}{}
		<-n.arrived
		for signal, count := range evictions() {
			if count != before[signal] {
				n.out.Signal = signal
			}
		}
		n.finish(m)
		if n.out.Victim == "" {
			n.step.Use = nil // nobody needs it, and the file is smaller
		}
	}
	n.step, n.figures, n.out = &Step{}, plenty(), &Answer{} // of the look that ends the manager
	cancel()
	close(n.proceed)
	return nil
}

// finish notes what can be seen of the manager after a look.
func (n *node) finish(m eviction.Manager) {
	for name, is := range map[string]bool{"MemoryPressure": m.IsUnderMemoryPressure(),
		"DiskPressure": m.IsUnderDiskPressure(), "PIDPressure": m.IsUnderPIDPressure()} {
		if is {
			n.out.Conditions = append(n.out.Conditions, name)
		}
	}
	slices.Sort(n.out.Conditions)
	met := reflect.ValueOf(m).Elem().FieldByName("thresholdsMet")
	for i := range met.Len() {
		t := met.Index(i)
		n.out.Starved = append(n.out.Starved, fmt.Sprintf("%s/%s", t.FieldByName("Signal").String(),
			time.Duration(t.FieldByName("GracePeriod").Int())))
	}
	slices.Sort(n.out.Starved)
	if n.out.Victim != "" {
		for _, p := range n.pods {
			n.out.Order = append(n.out.Order, p.Name)
		}
	}
}

// evictions are upstream's counters by signal.
func evictions() map[string]float64 {
	out := map[string]float64{}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "kubelet_evictions" {
			for _, m := range f.Metric {
				out[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return out
}

func (n *node) activePods() []*v1.Pod {
	n.arrived <- struct{}{}
	<-n.proceed
	n.pods = nil
	for i := range n.s.Pods {
		n.pods = append(n.pods, &n.s.Pods[i])
	}
	return n.pods
}

func (n *node) kill(p *v1.Pod, _ bool, grace *int64, set func(*v1.PodStatus)) error {
	var status v1.PodStatus
	set(&status)
	n.out.Victim, n.out.Grace, n.out.Message = p.Name, *grace, status.Message
	c := status.Conditions[0]
	if status.Phase != v1.PodFailed || status.Reason != "Evicted" || c.Type != v1.DisruptionTarget ||
		c.Reason != "TerminationByKubelet" || c.Message != status.Message {
		return fmt.Errorf("unexpected status %+v", status)
	}
	return nil
}

// HasDedicatedImageFs is a question of the manager's.
func (n *node) HasDedicatedImageFs(context.Context) (bool, error) { return n.s.Config.ImageFs, nil }

// HasDedicatedContainerFs is a question of the manager's.
func (n *node) HasDedicatedContainerFs(context.Context) (bool, error) { return n.s.Config.SplitFs, nil }

type imageGC struct{ n *node }

// DeleteUnusedImages notes that it was called; from then on the node has the figures after it.
func (g imageGC) DeleteUnusedImages(context.Context) error {
	g.n.reclaimed("unused images")
	return nil
}

type containerGC struct{ n *node }

// DeleteAllUnusedContainers notes that it was called.
func (g containerGC) DeleteAllUnusedContainers(context.Context) error {
	g.n.reclaimed("dead containers")
	return nil
}

func (n *node) reclaimed(what string) {
	n.out.Reclaimed = append(n.out.Reclaimed, what)
	if n.step.After != nil {
		n.figures = n.step.After
	}
}

// Event is not used by the manager.
func (n *node) Event(runtime.Object, string, string, string) {}

// Eventf notes which resource is reclaimed.
func (n *node) Eventf(_ runtime.Object, _, reason, format string, args ...any) {
	if reason == "EvictionThresholdMet" {
		n.out.Resource = strings.TrimPrefix(fmt.Sprintf(format, args...), "Attempting to reclaim ")
	}
}

// AnnotatedEventf notes the annotations of the event about the victim.
func (n *node) AnnotatedEventf(_ runtime.Object, notes map[string]string, _, _, _ string, _ ...any) {
	n.out.Annotations = notes
}

// GetCPUAndMemoryStats is a question of the manager's.
func (n *node) GetCPUAndMemoryStats(ctx context.Context) (*statsapi.Summary, error) {
	return n.Get(ctx, true)
}

// Get is the summary of the step.
func (n *node) Get(context.Context, bool) (*statsapi.Summary, error) {
	s := &statsapi.Summary{}
	if o, ok := n.figure("memory.available"); ok {
		s.Node.Memory = o.memory()
	}
	if o, ok := n.figure("allocatableMemory.available"); ok {
		s.Node.SystemContainers = []statsapi.ContainerStats{{Name: statsapi.SystemContainerPods, Memory: o.memory()}}
	}
	s.Node.Fs = n.filesystem("nodefs")
	s.Node.Runtime = &statsapi.RuntimeStats{ImageFs: n.filesystem("imagefs"), ContainerFs: n.filesystem("containerfs")}
	if o, ok := n.figure("pid.available"); ok {
		running := o.capacity - o.available
		s.Node.Rlimit = &statsapi.RlimitStats{Time: o.at, MaxPID: &o.capacity, NumOfRunningProcesses: &running}
	}
	for name, u := range n.step.Use {
		s.Pods = append(s.Pods, n.podStats(name, u))
	}
	return s, nil
}

type figure struct {
	available, capacity int64
	at                  metav1.Time
}

func (f figure) memory() *statsapi.MemoryStats {
	return &statsapi.MemoryStats{Time: f.at, AvailableBytes: unsigned(f.available),
		WorkingSetBytes: unsigned(f.capacity - f.available)}
}

func unsigned(n int64) *uint64 {
	u := uint64(n)
	return &u
}

func (n *node) figure(name string) (figure, bool) {
	f, ok := n.figures[name]
	return figure{f[0], f[1], metav1.NewTime(n.clock.now.Add(-time.Duration(f[2]) * time.Second))}, ok
}

// filesystem has the time of its bytes; that of its inodes has to be the same.
func (n *node) filesystem(name string) *statsapi.FsStats {
	bytes, hasBytes := n.figure(name + ".available")
	inodes, hasInodes := n.figure(name + ".inodesFree")
	out := &statsapi.FsStats{Time: bytes.at}
	if hasBytes {
		out.AvailableBytes, out.CapacityBytes = unsigned(bytes.available), unsigned(bytes.capacity)
	} else {
		out.Time = inodes.at
	}
	if hasInodes {
		out.InodesFree, out.Inodes = unsigned(inodes.available), unsigned(inodes.capacity)
	}
	return out
}

func (n *node) podStats(name string, u PodUse) statsapi.PodStats {
	p := statsapi.PodStats{PodRef: statsapi.PodReference{Name: name, Namespace: "ns", UID: "u" + name[1:]},
		ProcessStats: &statsapi.ProcessStats{ProcessCount: &u.Processes}}
	if u.Memory != nil {
		p.Memory = &statsapi.MemoryStats{WorkingSetBytes: unsigned(*u.Memory)}
	}
	space := func(s *Space) *statsapi.FsStats {
		if s == nil {
			return nil
		}
		return &statsapi.FsStats{UsedBytes: unsigned(s[0]), InodesUsed: unsigned(s[1])}
	}
	for _, c := range u.Containers {
		x := statsapi.ContainerStats{Name: c.Name, Rootfs: space(c.Layer), Logs: space(c.Logs)}
		if c.Memory != nil {
			x.Memory = &statsapi.MemoryStats{WorkingSetBytes: unsigned(*c.Memory)}
		}
		p.Containers = append(p.Containers, x)
	}
	for name, s := range u.Volumes {
		p.VolumeStats = append(p.VolumeStats, statsapi.VolumeStats{Name: name, FsStats: *space(&s)})
	}
	return p
}
