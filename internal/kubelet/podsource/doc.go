// Package podsource receives the Pods this node is to run.
//
// Sources put what they have into one ordered stream: the API (a list and watch with
// spec.nodeName=<node>), and files of static Pods. On a clash of uids the file wins. While a source
// is cut off, what it last said holds.
//
// In: a watch, a directory. Out: PodUpdates, in order, through one function; Synced once every
// source has said what it has.
//
// To add a source: a file with a run function that calls PodConfig.Put and PodConfig.Remove, and a
// line where the kubelet starts its sources.
package podsource
