// Package localstorage ends Pods that take more of the node's local storage than their limits
// allow.
//
// File systems tell nobody that a directory grew, so Pods with such limits are measured every ten
// seconds, others never. What a Pod does in its first ten seconds is not held against it: programs
// unpack and clean up then. In: Pods, measurements (stats). Out: events, and wishes that Pods end.
// evict decides.
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
)

// Period is how often Pods with limits are measured.
const Period = 10 * time.Second

// Deps is what is worked with.
type Deps struct {
	Pods    func() []*v1.Pod
	Measure func(context.Context) (*stats.Snapshot, error)
	KillPod func(types.UID, podplan.Termination) bool // false: there is no such Pod
	Events  record.EventRecorder
	Journal journal.Sink
}

// Watch measures and ends Pods until ctx ends.
func Watch(ctx context.Context, d Deps) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	reported := map[types.UID]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			reported = d.check(ctx, reported)
		}
	}
}

// check looks at every Pod with limits and returns those that had to end.
func (d Deps) check(ctx context.Context, reported map[types.UID]bool) map[types.UID]bool {
	limited := map[types.UID]*v1.Pod{}
	for _, p := range d.Pods() {
		if eviction.HasStorageLimits(p) && p.DeletionTimestamp == nil && p.Status.Phase != v1.PodFailed &&
			p.Status.Phase != v1.PodSucceeded && !isYoung(p, time.Now()) {
			limited[p.UID] = p
		}
	}
	if len(limited) == 0 {
		return reported
	}
	log := klog.FromContext(ctx)
	snap, err := d.Measure(ctx)
	if err != nil {
		if ctx.Err() == nil {
			log.Error(err, "Cannot measure what Pods take of the disk")
		}
		return reported
	}
	out := map[types.UID]bool{}
	for i := range snap.Pods {
		p := limited[types.UID(snap.Pods[i].UID)]
		if p == nil {
			continue
		}
		end, fact := eviction.LocalStorageEviction(p, usageOf(&snap.Pods[i]), time.Now())
		if end == nil {
			continue
		}
		out[p.UID] = true
		if reported[p.UID] || !d.KillPod(p.UID, *end) {
			continue
		}
		d.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, fact)
		log.Info("Pod evicted", "pod", klog.KObj(p), "podUID", p.UID, "reason", end.Message)
		d.Events.Event(p, v1.EventTypeWarning, eviction.Reason, end.Message)
	}
	return out
}

// isYoung tells whether a Pod began less than a period ago. Upstream's first measurement of a Pod
// comes ten seconds to a minute after its start.
func isYoung(p *v1.Pod, now time.Time) bool {
	return p.Status.StartTime != nil && now.Sub(p.Status.StartTime.Time) < Period
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
