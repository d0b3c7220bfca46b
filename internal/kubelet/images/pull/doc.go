// Package pull ensures that a container's image is on the node, by its pull policy and with a
// back-off.
//
// It carries out what package images decides: asks the runtime, pulls once for all who wait,
// reports in events and facts, and keeps the back-off of failed pulls.
//
// In: requests from Pod workers. Out: the image reference to create the container from, or a
// *reason.Refusal with the container's waiting reason as its code.
package pull
