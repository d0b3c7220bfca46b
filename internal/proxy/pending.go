package proxy

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// pendingChanges is what failed syncs leave to the next one.
type pendingChanges struct {
	// dirty are changes that are not all in the kernel; oldPorts is what the ports of their
	// Services were when everything last was.
	dirty    map[string]change
	oldPorts map[string][][]rules.ServicePort
	// staleConntrackPorts is what the ports were of Services that may still have stale UDP flows.
	staleConntrackPorts map[string][][]rules.ServicePort
}

// maxTriggerTimes bounds the trigger times kept per Service for
// network_programming_duration_seconds.
const maxTriggerTimes = 64

// merge combines c with a later change of the same Service: the earlier time, and the trigger times
// of both.
func (c change) merge(later change) change {
	if c.since.IsZero() {
		c.since = later.since
	}
	c.triggers = slices.Concat(c.triggers, later.triggers)
	c.triggers = c.triggers[:min(len(c.triggers), maxTriggerTimes)]
	return c
}

// merge adds the pending changes to those of the current sync.
func (o *pendingChanges) merge(dirty map[string]change) {
	for key, c := range o.dirty {
		dirty[key] = c.merge(dirty[key])
	}
}

// oldestPorts returns was, overridden by pending, whose values are older.
func oldestPorts(was, pending map[string][][]rules.ServicePort) map[string][][]rules.ServicePort {
	out := maps.Clone(was)
	maps.Copy(out, pending)
	return out
}

// cleanStaleConntrack deletes conntrack entries of UDP flows that the changed Services no longer
// serve; was holds their earlier ports. It returns false if entries may be left over. The kernel is
// asked only if there may be stale entries, because it walks the whole table of the machine.
func (p *Proxier) cleanStaleConntrack(ctx context.Context, was map[string][][]rules.ServicePort) bool {
	all, again := true, len(p.pending.staleConntrackPorts) > 0
	for i, t := range p.o.Tables {
		var ports []rules.ServicePort
		for key := range was {
			ports = append(ports, rules.StaleUDPPorts(portsOf(was[key], i), portsOf(p.ports[key], i))...)
		}
		flows := rules.NewUDPFlows(ports)
		if flows.Empty() {
			continue
		}
		began, family := time.Now(), familyLabel(t.Settings.Family)
		n, err := p.o.CleanStaleEntries(t.Settings.Family, flows)
		p.metrics.conntrack.WithLabelValues(family).Observe(time.Since(began).Seconds())
		p.metrics.staleConntrack.WithLabelValues(family).Add(float64(n))
		if err != nil {
			all = false
			if !again { // log the first failure only
				klog.FromContext(ctx).Error(err,
					"UDP conversations with endpoints that went may go on until they are silent; forgetting them is "+
						"tried again", "family", t.Settings.Family, "every", intactCheckPeriod)
			}
		}
	}
	return all
}
