// Package mirror creates and deletes the mirror Pods of static Pods in the API.
//
// decide.go decides for one name: create the mirror Pod, or delete one that is out of date, whose
// static Pod has left the node, or that somebody is deleting (it is created again). manager.go acts
// on that. It keeps mirror Pods out of the Pods from the API that the node runs, and writes a
// static Pod's status to its mirror Pod. Mirrors are one-way: changes of a mirror Pod have no
// effect.
//
// In: static Pods and their statuses, mirrors as the API has them, this node's object. Out:
// creations and deletions, statuses of mirrors.
//
// To add a rule: decide.go.
package mirror
