// Package usage is what a cgroup, a network namespace or a file system uses, as numbers.
//
// In: nothing; internal/linux fills these types from the kernel's files. Out: values that
// kubelet/stats renders as /stats/summary and as metrics.
//
// To add a number: a field here, a line in linux/cgroup's measure files for both versions, a row in
// kubelet/stats.
package usage
