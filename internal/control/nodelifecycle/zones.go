package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// Rates at which nodes are tainted for eviction, as kube-controller-manager's defaults.
const (
	evictionRate          = 0.1  // nodes per second and zone (--node-eviction-rate)
	secondaryEvictionRate = 0.01 // in a large disrupted zone (--secondary-node-eviction-rate)
	unhealthyThreshold    = 0.55 // share of not ready nodes that makes a zone disrupted (--unhealthy-zone-threshold)
	minUnhealthyNodes     = 3    // least number of not ready nodes in a disrupted zone
	// up to so many nodes a disrupted zone has no evictions (--large-cluster-size-threshold)
	largeClusterSize = 50

	// restartGracePeriod is the time between the NoSchedule taint and the NoExecute taint.
	restartGracePeriod = time.Second
	// zoneRecountPeriod is how old the count of zones may be: each sync of many lost nodes would
	// recount otherwise.
	zoneRecountPeriod = restartGracePeriod / 4
	// nodeMonitorPeriod is when a zone without evictions is checked again (--node-monitor-period).
	nodeMonitorPeriod = 5 * time.Second
)

// Zone is the number of ready and not ready nodes of a zone.
type Zone struct{ Ready, NotReady int }

// ZoneOf returns a node's zone by its labels of region and zone; empty without them: such nodes
// form a zone.
func ZoneOf(n *corev1.Node) string { return topology.GetZoneKey(n) }

// excludeDisruptionLabel is the label of nodes that do not count in Zones.
const excludeDisruptionLabel = "node.kubernetes.io/exclude-disruption"

// Zones counts the nodes of every zone, without excluded ones. A node that has not reported is not
// ready.
func Zones(nodes []*corev1.Node) map[string]Zone {
	out := map[string]Zone{}
	for _, n := range nodes {
		if _, is := n.Labels[excludeDisruptionLabel]; is {
			continue
		}
		name := ZoneOf(n)
		z := out[name]
		if readiness(n)[corev1.NodeReady] == corev1.ConditionTrue {
			z.Ready++
		} else {
			z.NotReady++
		}
		out[name] = z
	}
	return out
}

// EvictionRate returns how many nodes of a zone may be tainted for eviction per second; 0: none. If
// no node of any zone is ready the network or the control plane is probably at fault, and there are
// no evictions.
func EvictionRate(zones map[string]Zone, name string) float64 {
	z, alive := zones[name], false
	for _, other := range zones {
		alive = alive || other.Ready > 0
	}
	all := z.Ready + z.NotReady
	disrupted := z.NotReady >= minUnhealthyNodes && float64(z.NotReady)/float64(all) >= unhealthyThreshold
	switch {
	case !alive:
		return 0
	case z.Ready == 0 || !disrupted:
		return evictionRate
	case all > largeClusterSize:
		return secondaryEvictionRate
	}
	return 0
}

// EvictionTurn reports whether the Pods of a node that is not ready since the given time may be
// evicted now, and otherwise when to check again. last is when a node of its zone was last tainted;
// the first node of a zone does not wait for others.
func EvictionTurn(since, last time.Time, rate float64, now time.Time) (bool, time.Duration) {
	if left := since.Add(restartGracePeriod).Sub(now); left > 0 {
		return false, left
	}
	if last.IsZero() {
		return true, 0
	}
	if rate == 0 {
		return false, nodeMonitorPeriod
	}
	if left := last.Add(time.Duration(float64(time.Second) / rate)).Sub(now); left > 0 {
		return false, left
	}
	return true, 0
}
