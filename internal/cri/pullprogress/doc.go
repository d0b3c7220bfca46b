// Package pullprogress tells how much of an image a runtime has fetched so far, where the runtime
// can tell: containerd, whose content store answers on the socket that also speaks CRI.
//
// CRI itself says nothing about a pull that is under way. A runtime that does not know the content
// API is asked once and never again.
//
// In: an endpoint, an image's name. Out: bytes fetched and bytes in all.
//
// To add a runtime that tells otherwise: a file here and a case in Store.Pulled.
package pullprogress
