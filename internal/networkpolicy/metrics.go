package networkpolicy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
)

// policyMetrics holds the metrics of one Controller.
type policyMetrics struct {
	policies     prometheus.Gauge
	pods         *prometheus.GaugeVec
	sync         prometheus.Histogram
	policyToRule prometheus.Histogram
	podWait      prometheus.Histogram
	failures     prometheus.Counter
}

func newMetrics() *policyMetrics {
	const space = "gantry_network_policy"
	durations := prometheus.ExponentialBuckets(0.001, 2, 15)
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Name: name, Help: help,
			Buckets: durations})
	}
	return &policyMetrics{
		policies: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Name: "policies",
			Help: "NetworkPolicies of the cluster that this node follows"}),
		pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: space, Name: "pods",
			Help: "Pods of this node that a policy rules over, by direction"}, []string{"direction"}),
		sync: histogram("sync_duration_seconds",
			"Time of one look: what the rules are to be, and bringing the kernel there"),
		policyToRule: histogram("change_to_rule_seconds",
			"Time from hearing of a change to the rules of a Pod in the kernel"),
		podWait: histogram("gate_wait_seconds", "Time that Pods' starts wait until their policies are in force"),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Name: "sync_failures_total",
			Help: "Looks whose rules the kernel did not take; those before stay in force"}),
	}
}

// Collectors returns the metrics to register.
func (k *Controller) Collectors() []prometheus.Collector {
	m := k.metrics
	return []prometheus.Collector{m.policies, m.pods, m.sync, m.policyToRule, m.podWait, m.failures}
}

// reportPolicies journals Pods that other policies select than at the last sync. The first sync
// reports nothing.
func (k *Controller) reportPolicies(podPolicies map[rules.PodID]rules.PodPolicies) {
	was, first := k.podPolicies, k.podPolicies == nil
	k.podPolicies = podPolicies
	in, out := 0, 0
	for _, r := range podPolicies {
		if len(r.Ingress) > 0 {
			in++
		}
		if len(r.Egress) > 0 {
			out++
		}
	}
	k.metrics.pods.WithLabelValues("ingress").Set(float64(in))
	k.metrics.pods.WithLabelValues("egress").Set(float64(out))
	if first {
		return
	}
	took := time.Since(k.syncedSince)
	note := func(id rules.PodID, r rules.PodPolicies) {
		k.metrics.policyToRule.Observe(took.Seconds())
		if k.o.Journal != nil {
			k.o.Journal.Put(journal.Ref{Namespace: id.Namespace, Name: id.Name, UID: id.UID},
				journal.PoliciesChanged{Ingress: r.Ingress, Egress: r.Egress, Took: journal.Took(took)})
		}
	}
	for id, r := range podPolicies {
		if !r.Equal(was[id]) {
			note(id, r)
		}
	}
	for id := range was {
		if _, still := podPolicies[id]; !still && k.localPods[id] {
			note(id, rules.PodPolicies{})
		}
	}
}

// presentPods returns the known Pods of this node: a Pod that is gone is not one that policies no
// longer select.
func presentPods(pods []rules.Pod) map[rules.PodID]bool {
	out := map[rules.PodID]bool{}
	for _, p := range pods {
		if p.Local && !p.Unknown {
			out[rules.PodID{Namespace: p.Namespace, Name: p.Name, UID: p.UID}] = true
		}
	}
	return out
}
