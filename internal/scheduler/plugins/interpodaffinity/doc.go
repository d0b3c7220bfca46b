// Package interpodaffinity filters nodes by required affinity and anti-affinity of the Pod, and by
// required anti-affinity of the Pods on them; preferred terms of both score.
//
// Near means in the same domain: nodes that share the value of a term's topology key. What counts
// is kept by domain, so the status of a node is a look at its labels. The first Pod of a group that
// wants to stand near itself may stand anywhere that has the keys.
//
// In: InterPodAffinityArgs, and how namespaces are labelled. Out: refusals naming term and Pods,
// scores equal to upstream's formulas. Pure.
package interpodaffinity
