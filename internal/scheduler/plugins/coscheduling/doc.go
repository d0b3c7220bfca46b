// Package coscheduling binds the Pods of a group together or not at all: the out-of-tree plugin
// Coscheduling with the semantics of scheduling.x-k8s.io.
//
// A Pod names its group in the label scheduling.x-k8s.io/pod-group; the PodGroup of that name says
// how many members must have a node at once (minMember), what they need together (minResources),
// and how long placed members wait for the others (scheduleTimeoutSeconds). Placed members wait at
// Permit. Members whose siblings are still to come do not wait out a back-off: the one that
// completes the group wakes them all, and they are tried in the order of their names.
//
// In: PodGroups and Pods through Sources, the snapshot and the waiting Pods through the framework's
// Handle. Out: statuses in the plugin's own words. Nothing here reads a clock or the API:
// scheduler/bind makes the Sources. The CRD of PodGroup is in crd.yaml.
package coscheduling
