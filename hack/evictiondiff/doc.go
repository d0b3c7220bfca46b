// Command evictiondiff records what upstream's eviction manager decides about random nodes.
//
//	go run . [-n 1000] [-seed 1] [-o FILE]
//
// Each scenario is a configuration, a set of Pods and some looks at the node. It is given to
// k8s.io/kubernetes' manager through its exported interface, with providers that answer what the
// scenario says. What the manager does is written beside the scenario: thresholds, conditions,
// what it reclaims, the order of the Pods, the victim with grace period, message and annotations.
//
// The product's test TestUpstreamsDecisions (internal/kubelet/eviction) decides the same and
// compares. It replays the recorded file of its testdata; `-args -answers FILE` replays another.
package main
