package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// How fast Pods are driven off nodes that are not ready, as kube-controller-manager has it unless
// told otherwise.
const (
	evictionRate          = 0.1  // nodes a second of each zone (--node-eviction-rate)
	secondaryEvictionRate = 0.01 // of a large zone that is disrupted (--secondary-node-eviction-rate)
	unhealthyThreshold    = 0.55 // share of nodes not ready from which a zone is disrupted (--unhealthy-zone-threshold)
	minUnhealthyNodes     = 3    // nodes not ready that a disrupted zone has at least
	largeClusterSize      = 50   // nodes up to which a disrupted zone is left alone (--large-cluster-size-threshold)

	// restartGracePeriod is how long after the taint that keeps new Pods away the one follows that
	// drives out those that are there.
	restartGracePeriod = time.Second
	// zoneRecountPeriod is how old the count of the zones' nodes may be: a look at each lost node
	// of many would count all of them.
	zoneRecountPeriod = restartGracePeriod / 4
	// nodeMonitorPeriod is when a zone that is left alone is looked at again
	// (--node-monitor-period).
	nodeMonitorPeriod = 5 * time.Second
)

// Zone is how many nodes of a zone are ready and not.
type Zone struct{ Ready, NotReady int }

// ZoneOf names the zone of a node by its labels of region and zone; empty without them: such nodes
// are a zone of their own.
func ZoneOf(n *corev1.Node) string { return topology.GetZoneKey(n) }

// excludeDisruptionLabel is the label of nodes that are not counted where a zone is judged by how
// many of its nodes are ready.
const excludeDisruptionLabel = "node.kubernetes.io/exclude-disruption"

// Zones counts the nodes of every zone, but for those excluded. A node that has not told whether it
// is ready is not.
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

// EvictionRate is how many nodes of a zone may have their Pods driven out per second; 0 is none.
// Where no node of any zone is ready the fault is probably the network's, or the control plane's
// own, and nobody is driven anywhere.
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

// EvictionTurn tells whether the Pods of a node that is not ready since the given time may be
// driven out now, and else when to ask again. last is when that was done to a node of its zone; the
// first node of a zone does not wait for what has happened to others.
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
