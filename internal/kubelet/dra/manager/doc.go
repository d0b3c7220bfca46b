// Package manager prepares the devices of resource claims for Pods: it calls drivers before a Pod's
// sandbox is made and after its containers have stopped, and keeps a checkpoint of both.
//
// In: Pods and their ResourceClaims from the API, drivers that have registered. Out: CDI devices of
// containers, allocatedResourcesStatus, what the PodResources API shows. What a claim needs is
// package dra's; here is who is called, and in which order.
//
// A claim is in the checkpoint before its drivers are called and until they have undone their work,
// so that a kubelet that was killed in between calls them again: drivers must take that (the calls
// are idempotent). A claim of several Pods is undone with the last of them.
package manager
