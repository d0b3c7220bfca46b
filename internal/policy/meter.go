package policy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/policy/rules"
)

// meter has the figures of one enforcer.
type meter struct {
	policies prometheus.Gauge
	pods     *prometheus.GaugeVec
	sync     prometheus.Histogram
	toRule   prometheus.Histogram
	gate     prometheus.Histogram
	failures prometheus.Counter
}

func newMeter() *meter {
	const space = "gantry_network_policy"
	durations := prometheus.ExponentialBuckets(0.001, 2, 15)
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help, Buckets: durations})
	}
	return &meter{
		policies: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: "policies", Help: "NetworkPolicies of the cluster that this node follows"}),
		pods:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: space, Name: "pods", Help: "Pods of this node that a policy rules over, by direction"}, []string{"direction"}),
		sync:     histogram("sync_duration_seconds", "Time of one look: what the rules are to be, and bringing the kernel there"),
		toRule:   histogram("change_to_rule_seconds", "Time from hearing of a change to the rules of a Pod in the kernel"),
		gate:     histogram("gate_wait_seconds", "Time that Pods' starts wait until their policies are in force"),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Name: "sync_failures_total", Help: "Looks whose rules the kernel did not take; those before stay in force"}),
	}
}

// Collectors are the enforcer's figures.
func (k *Keeper) Collectors() []prometheus.Collector {
	m := k.meter
	return []prometheus.Collector{m.policies, m.pods, m.sync, m.toRule, m.gate, m.failures}
}

// report puts into the journal which Pods are held to other policies since the last look. What the first look finds is not new.
func (k *Keeper) report(over map[rules.PodID]rules.Ruling) {
	was, first := k.over, k.over == nil
	k.over = over
	in, out := 0, 0
	for _, r := range over {
		if len(r.Ingress) > 0 {
			in++
		}
		if len(r.Egress) > 0 {
			out++
		}
	}
	k.meter.pods.WithLabelValues("ingress").Set(float64(in))
	k.meter.pods.WithLabelValues("egress").Set(float64(out))
	if first {
		return
	}
	took := time.Since(k.since)
	note := func(id rules.PodID, r rules.Ruling) {
		k.meter.toRule.Observe(took.Seconds())
		if k.o.Journal != nil {
			k.o.Journal.Put(journal.Ref{Namespace: id.Namespace, Name: id.Name, UID: id.UID}, journal.PoliciesChanged{Ingress: r.Ingress, Egress: r.Egress, Took: journal.Took(took)})
		}
	}
	for id, r := range over {
		if !r.Equal(was[id]) {
			note(id, r)
		}
	}
	for id := range was {
		if _, still := over[id]; !still && k.here[id] {
			note(id, rules.Ruling{})
		}
	}
}

// present are the Pods that are here, by which a Pod that went is told from one that became free.
func present(pods []rules.Pod) map[rules.PodID]bool {
	out := map[rules.PodID]bool{}
	for _, p := range pods {
		if p.Here && !p.Unknown {
			out[rules.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}] = true
		}
	}
	return out
}
