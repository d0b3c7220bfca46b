// Package csi serves volumes of CSI drivers.
//
// In: drivers that register (Drivers is the pluginmanager's Handler for CSIPlugin), volumes as the
// volume manager hands them, the CSIDriver objects, Secrets and VolumeAttachments of the API. Out:
// the calls of the driver's node service: NodeStageVolume (MountDevice), NodePublishVolume (SetUp),
// NodeUnpublishVolume (TearDown), NodeUnstageVolume (UnmountDevice), NodeExpandVolume,
// NodeGetVolumeStats; the node's CSINode object, its annotation and topology labels.
//
// A volume that has to be attached waits for the node's own object: first until status.volumesInUse
// has it, so that nobody detaches it meanwhile, then until status.volumesAttached has it. What an
// external attacher says about it is read from the VolumeAttachment then. Nothing is polled.
package csi
