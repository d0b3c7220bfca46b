// Package cniplugin joins one sandbox to the Pod network and parts it again: the verbs of the CNI
// plugin, in one process and over netlink.
//
// The container runtime starts cmd/gantry-cni inside RunPodSandbox and StopPodSandbox. A lease is
// written before anything is made in the kernel and dropped after everything is gone, so a plugin
// killed at any instant leaves nothing that a later DEL or GC does not find.
//
// In: CNI's configuration and arguments. Out: a veth pair, addresses, routes, host ports, CNI's
// result.
package cniplugin
