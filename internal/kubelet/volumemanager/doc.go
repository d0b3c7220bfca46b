// Package volumemanager gives Pods their volumes and takes them away again.
//
// The shell of volume: it holds the objects a Pod refers to, runs each volume's Type, reports
// failures as events and facts, and cleans up after Pods.
//
// In: Pods from their workers; pushes from the object cache and from tokens that grow old. Out:
// host paths of volumes, *reason.Refusal naming what is missing. One call per Pod at a time; calls
// for different Pods run side by side.
package volumemanager
