// Package limitranger holds Pods and claims to their namespace's LimitRanges.
//
// In: a Pod or PersistentVolumeClaim being written, the LimitRanges of its namespace. Out: requests
// and limits filled in, or a refusal naming every limit broken.
package limitranger
