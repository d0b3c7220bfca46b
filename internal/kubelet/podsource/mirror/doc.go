// Package mirror shows static Pods to the API, each by a Pod there that mirrors it.
//
// What decide.go decides of one name: make the mirror, take away one that is out of date, whose Pod
// has left the node, or that somebody is deleting (it is made again); manager.go keeps that true
// and stands between the API's Pods and the merge (mirrors are none of the node's Pods) and between
// the workers and the status writer (a static Pod's status belongs on its mirror). Mirrors are
// one-way: nothing in them is heeded.
//
// In: static Pods and their statuses, mirrors as the API has them, this node's object. Out:
// creations and deletions, statuses of mirrors.
//
// To add a rule: decide.go.
package mirror
