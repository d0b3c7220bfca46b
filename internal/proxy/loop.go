package proxy

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// retry is how soon what the kernel refused is tried again; it doubles up to the longest.
const (
	retry        = time.Second
	longestRetry = time.Minute
	// glance is how often the kernel is asked whether the chains are all there.
	glance = 30 * time.Second
)

// loop looks whenever told, and compares with the kernel at first, after a refusal and each period.
func (p *Proxy) loop(ctx context.Context) error {
	defer p.close()
	hears := p.listen(ctx)
	p.drift = true
	p.mail.tellAll()
	again, first := retry, true
	listed := time.Now()
	for {
		failed := p.look(ctx, first)
		wait := max(p.o.Full-time.Since(listed), p.o.MinSync)
		if failed {
			wait, again = again, min(2*again, longestRetry)
		} else {
			if hears = hears && p.hears(ctx); !hears || len(p.owed.stale) > 0 {
				wait = min(wait, glance)
			}
			again = retry
			if first {
				close(p.synced)
				first = false
				p.rest()
			}
		}
		if !pause(ctx, p.o.MinSync) {
			return ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-p.mail.bell:
			timer.Stop()
		case <-timer.C:
			p.drift = p.drift || !hears && !p.intact(ctx)
		}
		if time.Since(listed) >= p.o.Full {
			p.drift, listed = true, time.Now()
		}
	}
}

// many is from how many Services on the first look takes much more memory than it leaves in use.
const many = 500

// rest gives back the memory that the first lists and batches took: a proxy at rest collects nothing for hours.
func (p *Proxy) rest() {
	if len(p.owners) >= many {
		go debug.FreeOSMemory()
	}
}

// listen has the loop woken when somebody else changes a table; false means that it has to look now and then.
func (p *Proxy) listen(ctx context.Context) bool {
	for _, t := range p.o.Tables {
		if err := t.Kernel.Listen(ctx, p.mail.ring); err != nil {
			klog.FromContext(ctx).Info("Others' changes of the proxy's rules are not heard of at once; they are looked for now and then", "every", glance, "err", err)
			return false
		}
	}
	return true
}

// hears tells whether all tables are listened to still. One that is not any more is told of, and none is asked again.
func (p *Proxy) hears(ctx context.Context) bool {
	for _, t := range p.o.Tables {
		if open, err := t.Kernel.Hears(); !open {
			klog.FromContext(ctx).Error(err, "Others' changes of the proxy's rules are not heard of any more; they are looked for now and then", "family", t.Settings.Family, "every", glance)
			return false
		}
	}
	return true
}

func (p *Proxy) close() {
	for _, t := range p.o.Tables {
		t.Kernel.Close()
	}
}

// pause lets changes gather; false means that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// look does what the mailbox asks for and tells whether something failed.
func (p *Proxy) look(ctx context.Context, first bool) (failed bool) {
	began := time.Now()
	dirty, all := p.mail.take()
	node := p.views.node(p.o.Node)
	p.health.setNode(node)
	if zone := zoneOf(node); zone != p.node.Zone {
		p.node.Zone, all = zone, true
	}
	if all {
		for _, key := range p.everyService() {
			if _, told := dirty[key]; !told {
				dirty[key] = change{}
			}
		}
	}
	for _, t := range p.o.Tables {
		if t.Kernel.Touched() {
			p.tellOfOthers(ctx, t)
			p.drift = true
		}
	}
	p.owed.take(dirty)
	if len(dirty)+len(p.owed.stale) == 0 && !p.drift {
		p.health.done(began)
		p.mail.done()
		return false
	}
	was, changes := p.plan(dirty)
	was, stale := older(was, p.owed.was), older(was, p.owed.stale)
	full := p.drift
	for i, t := range p.o.Tables {
		at := time.Now()
		err := p.put(ctx, i, changes[i])
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			failed = true
			p.meter.failures.WithLabelValues(familyLabel(t.Settings.Family)).Inc()
			klog.FromContext(ctx).Error(err, "Rules were not taken; what can be taken is in force, the rest is tried again", "family", t.Settings.Family)
		}
		p.meter.synced(t.Settings.Family, time.Since(at), full)
		if err == nil {
			p.meter.last.WithLabelValues(familyLabel(t.Settings.Family)).SetToCurrentTime()
		}
	}
	p.drift = failed
	if !failed {
		p.health.done(began)
		p.mail.done()
		p.report(dirty, was, first)
	}
	p.checks.set(ctx, p.counts)
	forgotten := p.forget(ctx, stale) // where the kernel refused some, the rest is in force; what it refused is forgotten once more when it is taken
	p.owed = owed{}
	if failed {
		p.owed.dirty, p.owed.was = dirty, was
	}
	if failed || !forgotten {
		p.owed.stale = stale
	}
	p.countWays()
	return failed
}

// everyService is all that are, and those that are in the books alone.
func (p *Proxy) everyService() []string {
	keys := p.views.services.GetStore().ListKeys()
	for name := range p.owners {
		if _, there, err := p.views.services.GetStore().GetByKey(name); err != nil || !there {
			keys = append(keys, name)
		}
	}
	return keys
}

// plan enters what the told Services want into the books; it returns what their ports were, and for each table what changes.
func (p *Proxy) plan(dirty map[string]change) (was map[string][][]rules.Port, changes []rules.Change) {
	was = map[string][][]rules.Port{}
	for range p.o.Tables {
		changes = append(changes, rules.NewChange())
	}
	for key := range dirty {
		if key == "" {
			continue
		}
		service, slices := p.views.service(key)
		owner := rules.Owner{Name: key}
		if service != nil {
			owner.Born = service.CreationTimestamp.Unix()
		}
		was[key] = p.ports[key]
		now := make([][]rules.Port, len(p.o.Tables))
		some := false
		for i, t := range p.o.Tables {
			state := rules.NewState()
			now[i] = rules.Ports(rules.Input{Service: service, Slices: slices, Node: p.node}, t.Settings.Family)
			for _, port := range now[i] {
				state.Add(port.State(t.Settings))
				some = true
			}
			changes[i].Merge(p.books[i].Set(owner, state))
			p.countNoLocal(i, portsOf(p.ports[key], i), -1)
			p.countNoLocal(i, now[i], 1)
		}
		if some {
			p.ports[key], p.owners[key] = now, owner
		} else {
			delete(p.ports, key)
			delete(p.owners, key)
		}
		p.count(key, service)
	}
	return was, changes
}

// put brings the change into the kernel. When the kernel may differ, or refuses, it is listed and everything that differs is put.
func (p *Proxy) put(ctx context.Context, i int, c rules.Change) error {
	t := p.o.Tables[i].Kernel
	if !p.drift {
		units := rules.Delta(c.Was, c.Now)
		if len(units) == 0 {
			return nil
		}
		err := t.Apply(ctx, units)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		klog.FromContext(ctx).Info("The kernel refused a change; comparing with what it has", "family", p.o.Tables[i].Settings.Family, "err", err)
	}
	if err := t.Set(ctx); err != nil {
		return err
	}
	want := p.books[i].All()
	have, err := t.List(ctx, want)
	if err != nil {
		return err
	}
	if err := t.Apply(ctx, rules.Delta(have, want)); err == nil {
		t.Restored()
		return nil
	}
	if have, err = t.List(ctx, want); err != nil { // some pieces may have been taken
		return err
	}
	var errs []error
	for _, r := range t.ApplyEach(ctx, rules.Delta(have, want)) {
		errs = append(errs, r)
	}
	if len(errs) == 0 {
		t.Restored()
	}
	return errors.Join(errs...)
}

// portsOf are a Service's ports in one table; none of a Service that is not in the books.
func portsOf(all [][]rules.Port, table int) []rules.Port {
	if all == nil {
		return nil
	}
	return all[table]
}

// countNoLocal counts ports that a Local policy leaves without endpoint on this node although there are some elsewhere.
func (p *Proxy) countNoLocal(table int, ports []rules.Port, by float64) {
	family := familyLabel(p.o.Tables[table].Settings.Family)
	for _, port := range ports {
		if !port.Any || len(port.Local) > 0 {
			continue
		}
		if port.InternalLocal {
			p.meter.noLocal.WithLabelValues(family, "internal").Add(by)
		}
		if port.ExternalLocal {
			p.meter.noLocal.WithLabelValues(family, "external").Add(by)
		}
	}
}

// intact asks the kernel, cheaply, whether the tables are still as they were left; whoever flushes all rules takes ours too.
func (p *Proxy) intact(ctx context.Context) bool {
	for i, t := range p.o.Tables {
		if !t.Kernel.Intact(ctx, p.books[i].All().Chains) {
			p.tellOfOthers(ctx, t)
			return false
		}
	}
	return true
}

func (p *Proxy) tellOfOthers(ctx context.Context, t Table) {
	klog.FromContext(ctx).Info("The proxy's rules were changed by somebody else; they are put right", "family", t.Settings.Family)
}

// countWays adds to the metrics how the transactions since the last call went.
func (p *Proxy) countWays() {
	for i, t := range p.o.Tables {
		now := t.Kernel.Ways()
		family := familyLabel(t.Settings.Family)
		p.meter.transactions.WithLabelValues(family, "netlink").Add(float64(now.Netlink - p.ways[i].Netlink))
		p.meter.transactions.WithLabelValues(family, "nft").Add(float64(now.Program - p.ways[i].Program))
		p.ways[i] = now
	}
}
