// Package volume decides what has to happen to a Pod's volumes: which to set up, refresh and tear
// down, and in what order; and it is the port that every type of volume implements.
//
// In: a Pod's volumes (the desired state, upstream's DesiredStateOfWorld) and those found on disk
// (the actual state, ActualStateOfWorld). Out: an
// ordered Plan; what types share: Plugin (per Pod: SetUp, TearDown), DeviceMountableVolumePlugin
// (per node: MountDevice, UnmountDevice), Spec, VolumeData, the ports. volumemanager carries plans
// out and draws the life of a volume.
//
// To add a type: a directory volume/<type> with a Plugin; a DeviceMountableVolumePlugin if the node
// has to stage the volume first (as CSI drivers with NodeStageVolume want); one row of the table
// volumePlugins in kubelet/volumes.go, which says whether it serves Pods' specs, claims or both;
// its rows in volumetest's TestTypes. Files that follow API objects need only
// atomicwriter.NewPlugin.
package volume
