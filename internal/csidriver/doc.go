// Package csidriver is the CSI driver local.csi.gantry.dev: dynamic volumes on the node's own disk.
//
// In: CSI calls over a unix socket, from the kubelet (node service) and from a provisioner
// (controller service). Out: one directory per volume below Options.Dir/volumes, with volume.json
// and either data/ (a directory volume) or disk.img (an image: a sparse file on a loop device, with
// a file system or raw). A volume is made under a hidden name and renamed when it is whole; what is
// left half made is removed at the next start. Sizes that were promised are never more than the
// disk has.
//
// Volumes belong to the node they were made on: its topology is topology.local.csi.gantry.dev/node.
// Parameters of a StorageClass: type, "image" (the size is enforced; needs loop devices, and mkfs
// of ext4 or xfs, which the capability says) or "directory" (it is where the disk has project
// quotas); without it, image where the node can.
package csidriver
