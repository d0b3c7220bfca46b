// Package provisioner makes and removes the PersistentVolumes of a CSI driver that has no
// external-provisioner beside it.
//
// In: claims that the scheduler placed on this node (or that wait for no consumer), released
// volumes, the driver's socket. Out: CreateVolume, DeleteVolume, ControllerExpandVolume; the
// PersistentVolumes, through the library that the external-provisioner is made of; the driver's
// CSIDriver and a default StorageClass where there is none of the name.
package provisioner
