// Package cniplugin implements the CNI plugin: it connects one sandbox to the Pod network and
// disconnects it, in one process and over netlink.
//
// The container runtime runs cmd/gantry-cni during RunPodSandbox and StopPodSandbox. A lease is
// written before anything is made in the kernel and removed after everything is gone, so that a
// later DEL or GC finds what a killed plugin leaves.
//
// In: CNI configuration and arguments. Out: a veth pair, addresses, routes, host ports, CNI's
// result.
package cniplugin
