package proxy

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// Delay until a refused change is tried again; it doubles up to maxRetryDelay.
const (
	retryDelay    = time.Second
	maxRetryDelay = time.Minute
	// intactCheckPeriod is how often the chains' names are checked while nobody listens for
	// changes, and how often deleting stale conntrack entries is retried.
	intactCheckPeriod = 30 * time.Second
)

// loop calls syncProxyRules when the change tracker or a timer wakes it, at most once per
// MinSyncPeriod, until ctx ends. It compares with the kernel's content at first, after a refusal
// and every FullSyncPeriod.
func (p *Proxier) loop(ctx context.Context) error {
	defer p.close()
	listening := p.listen(ctx)
	p.needFullSync = true
	p.changes.updateAll()
	again, first := retryDelay, true
	listed := time.Now()
	for {
		failed := p.syncProxyRules(ctx, first)
		wait := max(p.o.FullSyncPeriod-time.Since(listed), p.o.MinSyncPeriod)
		if failed {
			wait, again = again, min(2*again, maxRetryDelay)
		} else {
			if listening = listening && p.stillListening(ctx); !listening || len(p.pending.staleConntrackPorts) > 0 {
				wait = min(wait, intactCheckPeriod)
			}
			again = retryDelay
			if first {
				close(p.synced)
				first = false
				p.freeOSMemory()
			}
		}
		if !waitForBatch(ctx, p.o.MinSyncPeriod) {
			return ctx.Err()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-p.changes.wakeup:
			timer.Stop()
		case <-timer.C:
			p.needFullSync = p.needFullSync || !listening && !p.tablesIntact(ctx)
		}
		if time.Since(listed) >= p.o.FullSyncPeriod {
			p.needFullSync, listed = true, time.Now()
		}
	}
}

// manyServices is the number of Services above which the first sync takes much more memory than
// stays in use.
const manyServices = 500

// freeOSMemory returns the memory of the first lists and batches to the system: an idle proxy may
// not collect garbage for hours.
func (p *Proxier) freeOSMemory() {
	if len(p.owners) >= manyServices {
		go debug.FreeOSMemory()
	}
}

// listen wakes the loop when another program changes a table. It returns false if the kernel does
// not allow that; the loop then polls.
func (p *Proxier) listen(ctx context.Context) bool {
	for _, t := range p.o.Tables {
		if err := t.Kernel.Listen(ctx, p.changes.signal); err != nil {
			klog.FromContext(ctx).Info("Others' changes of the proxy's rules are not heard of at once; they are "+
				"looked for now and then", "every", intactCheckPeriod, "err", err)
			return false
		}
	}
	return true
}

// stillListening reports whether all tables are still listened to. It logs the first one that is
// not; the loop then stops asking and polls.
func (p *Proxier) stillListening(ctx context.Context) bool {
	for _, t := range p.o.Tables {
		if open, err := t.Kernel.Listening(); !open {
			klog.FromContext(ctx).Error(err,
				"Others' changes of the proxy's rules are not heard of any more; they are looked for now and then",
				"family", t.Settings.Family, "every", intactCheckPeriod)
			return false
		}
	}
	return true
}

func (p *Proxier) close() {
	for _, t := range p.o.Tables {
		t.Kernel.Close()
	}
}

// waitForBatch waits d, so that changes can gather; false: ctx has ended.
func waitForBatch(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// syncProxyRules brings the collected changes into all tables, reports them, and returns whether
// anything failed. first suppresses journal facts for what already existed.
func (p *Proxier) syncProxyRules(ctx context.Context, first bool) (failed bool) {
	began := time.Now()
	dirty, all := p.changes.takePending()
	node := p.caches.node(p.o.Node)
	p.health.syncNode(node)
	if zone := zoneOf(node); zone != p.node.Zone {
		p.node.Zone, all = zone, true
	}
	if all {
		for _, key := range p.allServices() {
			if _, reported := dirty[key]; !reported {
				dirty[key] = change{}
			}
		}
	}
	for _, t := range p.o.Tables {
		if t.Kernel.ModifiedByOthers() {
			p.reportOtherTables(ctx, t)
			p.needFullSync = true
		}
	}
	p.pending.merge(dirty)
	if len(dirty)+len(p.pending.staleConntrackPorts) == 0 && !p.needFullSync {
		p.health.updated(began)
		p.changes.processed()
		return false
	}
	was, changes := p.planChanges(dirty)
	was, stale := oldestPorts(was, p.pending.oldPorts), oldestPorts(was, p.pending.staleConntrackPorts)
	full := p.needFullSync
	for i, t := range p.o.Tables {
		at := time.Now()
		err := p.applyChange(ctx, i, changes[i])
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			failed = true
			p.metrics.failures.WithLabelValues(familyLabel(t.Settings.Family)).Inc()
			klog.FromContext(ctx).Error(err,
				"Rules were not taken; what can be taken is in force, the rest is tried again",
				"family", t.Settings.Family)
		}
		p.metrics.observeSync(t.Settings.Family, time.Since(at), full)
		if err == nil {
			p.metrics.lastTimestamp.WithLabelValues(familyLabel(t.Settings.Family)).SetToCurrentTime()
		}
	}
	p.needFullSync = failed
	if !failed {
		p.health.updated(began)
		p.changes.processed()
		p.reportChanges(dirty, was, first)
	}
	p.serviceHealth.syncServices(ctx, p.healthChecks)
	// After a refusal the rest is in force, so stale entries are deleted now, and once more when
	// the refused part is applied.
	forgotten := p.cleanStaleConntrack(ctx, stale)
	p.pending = pendingChanges{}
	if failed {
		p.pending.dirty, p.pending.oldPorts = dirty, was
	}
	if failed || !forgotten {
		p.pending.staleConntrackPorts = stale
	}
	p.countTransactions()
	return failed
}

// allServices returns the keys of all Services in the cache and of those that only the desired
// state still has.
func (p *Proxier) allServices() []string {
	keys := p.caches.services.GetStore().ListKeys()
	for name := range p.owners {
		if _, there, err := p.caches.services.GetStore().GetByKey(name); err != nil || !there {
			keys = append(keys, name)
		}
	}
	return keys
}

// planChanges updates the desired state for the dirty Services. It returns their earlier ports and,
// for each table, what changes.
func (p *Proxier) planChanges(dirty map[string]change) (was map[string][][]rules.ServicePort, changes []rules.Change) {
	was = map[string][][]rules.ServicePort{}
	for range p.o.Tables {
		changes = append(changes, rules.NewChange())
	}
	for key := range dirty {
		if key == "" {
			continue
		}
		service, slices := p.caches.service(key)
		owner := rules.Owner{Name: key}
		if service != nil {
			owner.Created = service.CreationTimestamp.Unix()
		}
		was[key] = p.ports[key]
		now := make([][]rules.ServicePort, len(p.o.Tables))
		some := false
		for i, t := range p.o.Tables {
			state := rules.NewState()
			now[i] = rules.ServicePorts(rules.Input{Service: service, Slices: slices, Node: p.node}, t.Settings.Family)
			for _, port := range now[i] {
				state.Add(port.State(t.Settings))
				some = true
			}
			changes[i].Merge(p.tables[i].desired.Set(owner, state))
			p.countNoLocal(i, portsOf(p.ports[key], i), -1)
			p.countNoLocal(i, now[i], 1)
		}
		if some {
			p.ports[key], p.owners[key] = now, owner
		} else {
			delete(p.ports, key)
			delete(p.owners, key)
		}
		p.updateHealthCheck(key, service)
	}
	return was, changes
}

// applyChange applies c to table i. If the kernel may differ or refuses, it lists the table and
// applies everything that differs; the error then joins one RefusedError per refused unit.
func (p *Proxier) applyChange(ctx context.Context, i int, c rules.Change) error {
	t := p.o.Tables[i].Kernel
	if !p.needFullSync {
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
		klog.FromContext(ctx).Info("The kernel refused a change; comparing with what it has",
			"family", p.o.Tables[i].Settings.Family, "err", err)
	}
	if err := t.EnsureFrame(ctx); err != nil {
		return err
	}
	want := p.tables[i].desired.All()
	have, err := t.List(ctx, want)
	if err != nil {
		return err
	}
	if err := t.Apply(ctx, rules.Delta(have, want)); err == nil {
		t.ClearModified()
		return nil
	}
	if have, err = t.List(ctx, want); err != nil { // some transactions may have been applied
		return err
	}
	var errs []error
	for _, r := range t.ApplyEach(ctx, rules.Delta(have, want)) {
		errs = append(errs, r)
	}
	if len(errs) == 0 {
		t.ClearModified()
	}
	return errors.Join(errs...)
}

// portsOf returns a Service's ports in one table; nil if it has none.
func portsOf(all [][]rules.ServicePort, table int) []rules.ServicePort {
	if all == nil {
		return nil
	}
	return all[table]
}

// countNoLocal adds by to sync_proxy_rules_no_local_endpoints_total for each port that a Local
// traffic policy leaves without an endpoint on this node although others have some.
func (p *Proxier) countNoLocal(table int, ports []rules.ServicePort, by float64) {
	family := familyLabel(p.o.Tables[table].Settings.Family)
	for _, port := range ports {
		if !port.AnyEndpoint || len(port.LocalEndpoints) > 0 {
			continue
		}
		if port.InternalLocal {
			p.metrics.noLocalEndpoints.WithLabelValues(family, "internal").Add(by)
		}
		if port.ExternalLocal {
			p.metrics.noLocalEndpoints.WithLabelValues(family, "external").Add(by)
		}
	}
}

// tablesIntact checks by chain names that the tables are as they were left: a flush of the whole
// ruleset by another program removes ours too.
func (p *Proxier) tablesIntact(ctx context.Context) bool {
	for i, t := range p.o.Tables {
		if !t.Kernel.Intact(ctx, p.tables[i].desired.All().Chains) {
			p.reportOtherTables(ctx, t)
			return false
		}
	}
	return true
}

func (p *Proxier) reportOtherTables(ctx context.Context, t Table) {
	klog.FromContext(ctx).Info("The proxy's rules were changed by somebody else; they are put right",
		"family", t.Settings.Family)
}

// countTransactions adds the transactions since the last call to the metrics.
func (p *Proxier) countTransactions() {
	for i, t := range p.o.Tables {
		now := t.Kernel.TransactionCounts()
		family := familyLabel(t.Settings.Family)
		p.metrics.transactions.WithLabelValues(family,
			"netlink").Add(float64(now.Netlink - p.tables[i].transactions.Netlink))
		p.metrics.transactions.WithLabelValues(family, "nft").Add(float64(now.Nft - p.tables[i].transactions.Nft))
		p.tables[i].transactions = now
	}
}
