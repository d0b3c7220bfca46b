// Package gc removes images that no container needs when the disk fills, or when nobody has used
// them for long.
//
// It carries out images.PlanGC: it measures, keeps in mind when each image was seen and used,
// removes, and tells the node's events.
//
// In: the runtime's images and containers, what the Pods' specs name, the disk, thresholds of
// KubeletConfiguration. Out: fewer images; events FreeDiskSpaceFailed, ImageGCFailed and
// InvalidDiskCapacity.
package gc
