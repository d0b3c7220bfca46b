package proxy

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// owed is what looks that failed have left for the next one.
type owed struct {
	// dirty are changes that are not all in the kernel, and was what their Services' ports were when all last was.
	dirty map[string]change
	was   map[string][][]rules.Port
	// stale is what the ports were of Services whose old UDP conversations may go on.
	stale map[string][][]rules.Port
}

// mostTriggers is how many trigger times of a Service wait to be measured.
const mostTriggers = 64

// with is an earlier change and a later one as one.
func (c change) with(later change) change {
	if c.since.IsZero() {
		c.since = later.since
	}
	c.triggers = slices.Concat(c.triggers, later.triggers)
	c.triggers = c.triggers[:min(len(c.triggers), mostTriggers)]
	return c
}

// take adds to a look's changes those that are owed.
func (o *owed) take(dirty map[string]change) {
	for key, c := range o.dirty {
		dirty[key] = c.with(dirty[key])
	}
}

// older is was, with what the ports were still earlier where that is owed.
func older(was, owed map[string][][]rules.Port) map[string][][]rules.Port {
	out := maps.Clone(was)
	maps.Copy(out, owed)
	return out
}

// forget drops UDP conversations that the changed Services' ports no longer want; false means that some may go on. The kernel is asked only where
// there may be some, as it goes through all that the machine has.
func (p *Proxy) forget(ctx context.Context, was map[string][][]rules.Port) bool {
	all, again := true, len(p.owed.stale) > 0
	for i, t := range p.o.Tables {
		var ports []rules.Port
		for key := range was {
			ports = append(ports, rules.Outdated(portsOf(was[key], i), portsOf(p.ports[key], i))...)
		}
		flows := rules.NewFlows(ports)
		if flows.Empty() {
			continue
		}
		began, family := time.Now(), familyLabel(t.Settings.Family)
		n, err := p.o.Forget(t.Settings.Family, flows)
		p.meter.conntrack.WithLabelValues(family).Observe(time.Since(began).Seconds())
		p.meter.forgotten.WithLabelValues(family).Add(float64(n))
		if err != nil {
			all = false
			if !again { // told when it begins
				klog.FromContext(ctx).Error(err, "UDP conversations with endpoints that went may go on until they are silent; forgetting them is tried again", "family", t.Settings.Family, "every", glance)
			}
		}
	}
	return all
}
