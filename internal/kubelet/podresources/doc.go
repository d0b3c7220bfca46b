// Package podresources serves the PodResources API v1 on the kubelet's socket
// pod-resources/kubelet.sock: which devices, CPUs and memory containers have, for monitoring
// agents.
//
// In: the Pods of the node and the managers that give resources away (Providers). Out: answers to
// List, Get and GetAllocatableResources, at most 100 in a second, as upstream. Nothing is changed.
//
// To add a resource: a provider, its field in Providers, its line in container.
package podresources
