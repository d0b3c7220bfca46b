// Package vm has one scenario of `make vm` as a test: Gantry in a virtual machine with cgroup v2
// and systemd, where a Pod eats memory until the node evicts it.
//
// In: GANTRY_VM=1, build/bin, QEMU and Debian's packages (hack/vm). Out: a time line; skipped with
// the reason where no such machine can be had.
package vm
