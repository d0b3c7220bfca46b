// Package topologymanager joins what the managers of CPUs, memory and devices say about NUMA nodes
// into one affinity for each container, and refuses Pods that have none (KEP-693).
//
// In: hints of HintProviders, the policy, scope and options of the configuration, the NUMA nodes of
// the machine. Out: the affinity that each provider allocates by, or a refusal with upstream's
// reason and text. Merge and the policies are pure functions; Manager holds the affinities of Pods
// and calls the providers.
//
// To add a resource: implement HintProvider and give it to AddHintProvider.
package topologymanager
