// Package topologymanager merges the topology hints of the CPU, memory and device managers into one
// NUMA affinity for each container, and refuses Pods that have none (KEP-693).
//
// In: hints of HintProviders, the policy, scope and options of the configuration, the NUMA nodes of
// the machine. Out: the affinity that each provider allocates by, or a refusal with upstream's
// reason and text. Merge and the policies are pure functions; Manager holds the affinities of Pods
// and calls the providers.
//
// To add a resource: implement HintProvider and give it to AddHintProvider.
package topologymanager
