// Package static reads static Pods: from manifests in files and from the answers of a URL.
//
// A manifest gets defaults, the node's name behind its own, a uid that is the hash of its content
// and place, the annotations kubernetes.io/config.source and .hash, and is validated; one that
// refers to API objects is refused, as upstream's gate PreventStaticPodAPIReferences (on since
// v1.34) does. Diff says what came and went between two readings.
//
// In: bytes, where they come from, the API's rules for Pods (Rules, joined by app). Out: Pods, or
// an error that names the field.
//
// To add a reference that is refused: a row in references.go.
package static
