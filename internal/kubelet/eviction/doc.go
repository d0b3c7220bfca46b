// Package eviction rules which Pods have to leave the node for what they take of it.
//
// A Pod that takes more local storage than its own limits allow ends: an emptyDir over its
// sizeLimit, a Pod over the sum of its containers' ephemeral-storage limits, a container over its
// own. https://kubernetes.io/docs/concepts/storage/ephemeral-storage/
//
// In: a Pod, what it uses. Out: nothing, or the end that it has to come to, with upstream's texts.
//
// To add a rule: a function here and its row in rules; evict/local measures and acts.
package eviction
