// Package events records Kubernetes events about Pods and the node, with upstream's reasons and
// messages.
//
// A Recorder wraps client-go's, so that repeated events are counted as upstream counts them; the
// functions here know the object's field path of a container, and the texts.
//
// In: Pods, containers, causes. Out: v1 Events of component kubelet.
//
// To add an event: a method in texts.go with upstream's reason and text.
package events
