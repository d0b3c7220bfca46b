// Package nodeaffinity refuses nodes that spec.nodeSelector, required node affinity or the
// profile's added affinity leave out, and scores by preferred terms.
//
// In: NodeAffinityArgs (addedAffinity). Pure.
package nodeaffinity
