// Package pullprogress reports how much of an image has been fetched, for runtimes that expose it:
// containerd, whose content store is on the socket that serves CRI.
//
// CRI itself does not report progress of pulls. A runtime without the content API is asked once.
//
// In: an endpoint, an image's name. Out: bytes fetched, bytes in all.
//
// To support another runtime: a file here and a case in Store.PullProgress.
package pullprogress
