package proxy

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// pendingChanges is what looks that failed have left for the next one.
type pendingChanges struct {
	// dirty are changes that are not all in the kernel, and was what their Services' ports were
	// when all last was.
	dirty    map[string]change
	oldPorts map[string][][]rules.ServicePort
	// staleConntrackPorts is what the ports were of Services whose old UDP conversations may go on.
	staleConntrackPorts map[string][][]rules.ServicePort
}

// maxTriggerTimes is how many trigger times of a Service wait to be measured.
const maxTriggerTimes = 64

// merge is an earlier change and a later one as one.
func (c change) merge(later change) change {
	if c.since.IsZero() {
		c.since = later.since
	}
	c.triggers = slices.Concat(c.triggers, later.triggers)
	c.triggers = c.triggers[:min(len(c.triggers), maxTriggerTimes)]
	return c
}

// merge adds to a look's changes those that are owed.
func (o *pendingChanges) merge(dirty map[string]change) {
	for key, c := range o.dirty {
		dirty[key] = c.merge(dirty[key])
	}
}

// oldestPorts is was, with what the ports were still earlier where that is owed.
func oldestPorts(was, pending map[string][][]rules.ServicePort) map[string][][]rules.ServicePort {
	out := maps.Clone(was)
	maps.Copy(out, pending)
	return out
}

// cleanStaleConntrack drops UDP conversations that the changed Services' ports no longer want;
// false means that some may go on. The kernel is asked only where there may be some, as it goes
// through all that the machine has.
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
			if !again { // told when it begins
				klog.FromContext(ctx).Error(err,
					"UDP conversations with endpoints that went may go on until they are silent; forgetting them is "+
						"tried again", "family", t.Settings.Family, "every", intactCheckPeriod)
			}
		}
	}
	return all
}
