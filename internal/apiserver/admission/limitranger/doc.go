// Package limitranger is the admission plugin LimitRanger: it sets the defaults and enforces the
// constraints of a namespace's LimitRanges for Pods and PersistentVolumeClaims.
//
// In: a Pod or PersistentVolumeClaim being written, the LimitRanges of its namespace. Out: requests
// and limits filled in, or a refusal naming every limit broken.
package limitranger
