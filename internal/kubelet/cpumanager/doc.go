// Package cpumanager assigns exclusive CPUs to containers and keeps all others in the shared pool
// (KEP-3570, the policies none and static).
//
// In: the machine, the policy with its options, Pods that are admitted, the affinity of the
// topology manager. Out: the CPUs of each container, for its cpuset, and a checkpoint that outlives
// the kubelet. The choice itself is the pure package cpuassignment; what a Pod asks for and which
// hints it has are pure functions of this one.
//
// To add an option: Options, ParseOptions, and the function that it bears on.
package cpumanager
