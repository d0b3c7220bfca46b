// Package localstorage ends Pods that take more of the node's local storage than their limits
// allow.
//
// File systems tell nobody that a directory grew, so Pods with such limits are measured in each
// pass of the eviction manager, others never. What a Pod does in its first ten seconds is not held
// against it: programs unpack and clean up then. In: Pods, measurements (stats). Out: events, and
// requests that Pods end. Package eviction decides.
package localstorage

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/stats"
	"github.com/gantry-project/gantry/internal/pod"
)

// minAge is how long a Pod is left alone.
const minAge = 10 * time.Second

// Deps is what is worked with.
type Deps struct {
	Pods    func() []*v1.Pod
	Measure func(context.Context) (*stats.Snapshot, error)
	KillPod func(types.UID, podplan.Termination) bool // false: there is no such Pod
	Events  record.EventRecorder
	Journal journal.Sink
}

// Checker finds Pods over their limits and ends them. The eviction manager asks it once in each
// pass.
type Checker struct {
	d       Deps
	evicted map[types.UID]bool // that had to end at the last check
}

// New returns a Checker.
func New(d Deps) *Checker { return &Checker{d: d, evicted: map[types.UID]bool{}} }

// Check looks at every Pod with limits. true: some had to go, and were asked to now.
func (c *Checker) Check(ctx context.Context) bool {
	limited := map[types.UID]*v1.Pod{}
	for _, p := range c.d.Pods() {
		if eviction.HasStorageLimits(p) && pod.IsActive(p) && !isYoung(p, time.Now()) {
			limited[p.UID] = p
		}
	}
	if len(limited) == 0 {
		return false
	}
	snap, err := c.d.Measure(ctx)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Cannot measure what Pods take of the disk")
		}
		return false
	}
	before, some := c.evicted, false
	c.evicted = map[types.UID]bool{}
	for i := range snap.Pods {
		p := limited[types.UID(snap.Pods[i].UID)]
		if p == nil {
			continue
		}
		end, fact := eviction.LocalStorageEviction(p, usageOf(&snap.Pods[i]), time.Now())
		if end == nil {
			continue
		}
		c.evicted[p.UID] = true
		if !before[p.UID] && c.evict(ctx, p, *end, fact) {
			some = true
		}
	}
	return some
}

// evict asks a Pod to end; false: it is not there any more.
func (c *Checker) evict(ctx context.Context, p *v1.Pod, end podplan.Termination, fact journal.StorageExceeded) bool {
	if !c.d.KillPod(p.UID, end) {
		return false
	}
	c.d.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, fact)
	klog.FromContext(ctx).Info("Pod evicted", "pod", klog.KObj(p), "podUID", p.UID, "reason", end.Message)
	c.d.Events.Event(p, v1.EventTypeWarning, eviction.Reason, end.Message)
	return true
}

// isYoung tells whether a Pod began less than ten seconds ago. Upstream's first measurement of a
// Pod comes ten seconds to a minute after its start.
func isYoung(p *v1.Pod, now time.Time) bool {
	return p.Status.StartTime != nil && now.Sub(p.Status.StartTime.Time) < minAge
}

// usageOf sums up what was measured of a Pod.
func usageOf(p *stats.Pod) eviction.Usage {
	u := eviction.Usage{Volumes: map[string]int64{}, Shared: map[string]bool{}, Containers: map[string]int64{},
		ContainerLogs: map[string]int64{}, Logs: int64(p.Logs.Bytes)}
	for _, v := range p.Volumes {
		u.Volumes[v.Name], u.Shared[v.Name] = int64(v.Disk.Used), v.Ephemeral
	}
	for _, c := range p.Containers {
		if c.Layer != nil {
			u.WritableLayers += int64(c.Layer.Bytes)
			u.Containers[c.Name] += int64(c.Layer.Bytes)
		}
		if c.Logs != nil {
			u.Containers[c.Name] += int64(c.Logs.Bytes)
			u.ContainerLogs[c.Name] += int64(c.Logs.Bytes)
		}
	}
	return u
}
