// Package status draws the map of a cluster's parts: the API server and its store, scheduler,
// controllers, and on each node kubelet, container runtime, Service proxy and name server; how each
// is, how old, how loaded, of which version, and who talks to whom.
//
// In: Facts, which package gather reads with the caller's rights. Out: a Map, which writes itself
// as text, JSON or SVG. Pure: the time is Facts.Now. What nobody could see is unknown, with the
// reason, never healthy.
//
// To add a part: its facts, a function in parts.go, a row of Draw.
package status
