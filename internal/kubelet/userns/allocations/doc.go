// Package allocations keeps the ids that Pods with users of their own have, in a file of each Pod's
// directory.
//
// The files are all there is: a restarted kubelet, or upstream's, finds every range where it was. A
// range is free when its Pod's directory is gone. A damaged file is mended from what the runtime
// says of the Pod's sandbox.
//
// In: a Pod's uid; the configuration, getsubids. Out: its Range.
package allocations
