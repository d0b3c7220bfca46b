package manager

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/pod"
)

// reportTarget tells that the node acts on a threshold.
func (m *Manager) reportTarget(ctx context.Context, d eviction.Decision) {
	klog.FromContext(ctx).Info("Eviction manager: attempting to reclaim", "resourceName", d.Resource, "signal",
		d.Target.Signal)
	m.d.Events.Eventf(m.d.Node, v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", d.Resource)
	fact := journal.EvictionThresholdMet{Signal: string(d.Target.Signal), Threshold: d.Target.Value.String(),
		Available: d.State.Last[d.Target.Signal].Available}
	for _, met := range d.Met {
		if met.Signal == d.Target.Signal && met.Grace == d.Target.Grace {
			fact.Since = met.Since
		}
	}
	m.d.Journal.Put(journal.Ref{Kind: "Node", Name: m.d.Node.Name}, fact)
}

// reportFruitless tells, once for each time, that evictions stop because they bring nothing, and
// shows how many have brought nothing.
func (m *Manager) reportFruitless(ctx context.Context, d eviction.Decision) {
	if m.d.Metrics.Fruitless != nil {
		before, now := m.state.Gain, d.State.Gain
		if before.Signal != "" && before.Signal != now.Signal {
			m.d.Metrics.Fruitless(string(before.Signal), 0)
		}
		if now.Signal != "" {
			m.d.Metrics.Fruitless(string(now.Signal), now.Fruitless)
		}
	}
	if d.Fruitless == nil || *d.Fruitless == m.reported.fruitless {
		return
	}
	f := *d.Fruitless
	m.reported.fruitless = f
	klog.FromContext(ctx).Info("Eviction manager: evictions bring nothing and stop", "signal", f.Signal, "evictions",
		f.Evictions, "until", f.Until)
	m.d.Events.Event(m.d.Node, v1.EventTypeWarning, "EvictionsFruitless", f.Message())
	m.d.Journal.Put(journal.Ref{Kind: "Node", Name: m.d.Node.Name},
		journal.EvictionsFruitless{Signal: string(f.Signal), Evictions: f.Evictions, Until: f.Until})
}

// evict asks the victim to end and waits for it. false: nobody went.
func (m *Manager) evict(ctx context.Context, d eviction.Decision) bool {
	log := klog.FromContext(ctx)
	v := d.Victim
	if v == nil {
		log.Info("Eviction manager: unable to evict any pods from the node", "resourceName", d.Resource, "pods",
			len(d.Ranked))
		return false
	}
	p := v.Pod
	terminated, ok := m.d.KillPod(p.UID, podplan.Termination{Cause: "evicted", Reason: eviction.Reason,
		Message: v.Message, Victim: v.Message, RequestedAt: time.Now(), Grace: v.Grace, Immediate: d.Target.Hard()})
	if !ok {
		return false // it has gone by itself; the next look has other figures
	}
	m.victims[p.UID] = true
	m.d.Events.AnnotatedEventf(events.RefOf(p, ""), v.Annotations, v1.EventTypeWarning, eviction.Reason, "%s",
		v.Message)
	log.Info("Eviction manager: must evict pod(s) to reclaim", "resourceName", d.Resource, "pod", klog.KObj(p),
		"podUID",
		p.UID, "place", v.Place+1, "message", v.Message)
	m.d.Journal.Put(pod.Ref(p), journal.Evicted{
		Signal: string(d.Target.Signal), Threshold: d.Target.Value.String(),
		Available: d.State.Last[d.Target.Signal].Available, Place: v.Place + 1, Of: len(d.Ranked),
		Measured: v.Measured, Use: v.Use.Value(), Request: v.Request.Value(), Priority: pod.Priority(p),
		Grace: journal.Took(v.Grace),
	})
	if m.d.Metrics.StatsAge != nil {
		for _, t := range d.Thresholds {
			if at := d.State.Last[t.Signal].At; !at.IsZero() {
				m.d.Metrics.StatsAge(string(t.Signal), time.Since(at))
			}
		}
	}
	m.state = eviction.Evicted(d)
	m.waitForCleanup(ctx, p, terminated, v.Grace)
	return true
}

// waitForCleanup waits until the victim has ended and given back what it held, but not for long: a
// runtime that hangs must not keep the manager.
func (m *Manager) waitForCleanup(ctx context.Context, p *v1.Pod, terminated <-chan struct{}, grace time.Duration) {
	log := klog.FromContext(ctx)
	timeout := time.NewTimer(max(minKillTimeout, grace+grace/2))
	defer timeout.Stop()
	select {
	case <-terminated:
	case <-timeout.C:
		m.d.Events.Eventf(events.RefOf(p, ""), v1.EventTypeWarning, "ExceededGracePeriod",
			"Container runtime did not kill the pod within specified grace period.")
		log.Info("Eviction manager: timed out waiting for the pod to end", "pod", klog.KObj(p), "podUID", p.UID)
	case <-ctx.Done():
		return
	}
	if m.waitCleanedUp(ctx, p.UID) {
		log.Info("Eviction manager: pods successfully cleaned up", "pod", klog.KObj(p))
	} else if ctx.Err() == nil {
		log.Info("Eviction manager: timed out waiting for pods to be cleaned up", "pod", klog.KObj(p))
	}
}

func (m *Manager) waitCleanedUp(ctx context.Context, uid types.UID) bool {
	timeout := time.NewTimer(podCleanupTimeout)
	defer timeout.Stop()
	tick := time.NewTicker(podCleanupPoll)
	defer tick.Stop()
	for !m.d.CleanedUp(uid) {
		select {
		case <-tick.C:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
