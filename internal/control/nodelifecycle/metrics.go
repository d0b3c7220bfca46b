package nodelifecycle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "node_collector"

var (
	zoneHealth = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "zone_health", StabilityLevel: metrics.ALPHA,
		Help: "Gauge measuring percentage of healthy nodes per zone.",
	}, []string{"zone"})
	zoneSize = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "zone_size", StabilityLevel: metrics.ALPHA,
		Help: "Gauge measuring number of registered Nodes per zones.",
	}, []string{"zone"})
	unhealthyNodes = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "unhealthy_nodes_in_zone", StabilityLevel: metrics.ALPHA,
		Help: "Gauge measuring number of not Ready Nodes per zones.",
	}, []string{"zone"})
	evictions = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "evictions_total", StabilityLevel: metrics.STABLE,
		Help: "Number of Node evictions that happened since current instance of NodeController started.",
	}, []string{"zone"})
)

func init() { legacyregistry.MustRegister(zoneHealth, zoneSize, unhealthyNodes, evictions) }

// zoneMetrics keeps the gauges of zones, node by node. Its user serializes calls.
type zoneMetrics struct {
	nodes map[string]nodeRecord // by name
	zones map[string]Zone
}

type nodeRecord struct {
	zone  string
	ready bool
}

func newZoneMetrics() zoneMetrics { return zoneMetrics{map[string]nodeRecord{}, map[string]Zone{}} }

// observeNode notes a node as it is; nil: it has gone.
func (m *zoneMetrics) observeNode(name string, n *corev1.Node) {
	was, had := m.nodes[name]
	counts := n != nil
	if counts {
		_, excluded := n.Labels[excludeDisruptionLabel]
		counts = !excluded
	}
	var is nodeRecord
	if counts {
		is = nodeRecord{ZoneOf(n), readiness(n)[corev1.NodeReady] == corev1.ConditionTrue}
		if had && was == is {
			return
		}
		m.nodes[name] = is
	} else {
		delete(m.nodes, name)
	}
	if had {
		m.add(was, -1)
	}
	if counts {
		m.add(is, 1)
	}
}

// add changes the count of a node's zone. A zone without nodes is healthy, as upstream has it.
func (m *zoneMetrics) add(n nodeRecord, by int) {
	z := m.zones[n.zone]
	if n.ready {
		z.Ready += by
	} else {
		z.NotReady += by
	}
	m.zones[n.zone] = z
	all, health := z.Ready+z.NotReady, 100.0
	if all > 0 {
		health = float64(100*z.Ready) / float64(all)
	}
	zoneSize.WithLabelValues(n.zone).Set(float64(all))
	zoneHealth.WithLabelValues(n.zone).Set(health)
	unhealthyNodes.WithLabelValues(n.zone).Set(float64(z.NotReady))
	evictions.WithLabelValues(n.zone).Add(0)
}

// evicts tells that taints have a NoExecute that have does not.
func evicts(have, taints []corev1.Taint) bool {
	count := func(list []corev1.Taint) (n int) {
		for i := range list {
			for _, row := range conditionTaints {
				if list[i].Key == row.key && list[i].Effect == corev1.TaintEffectNoExecute {
					n++
				}
			}
		}
		return n
	}
	return count(have) == 0 && count(taints) > 0
}
