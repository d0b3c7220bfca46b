// Package volumehealth asks CSI drivers how their volumes and their storage are (KEP-1432, gate
// CSIVolumeHealth).
//
// In: the volumes that drivers were asked for, the registered drivers. Out: conditions by Pod and
// volume, for status.volumeHealth of Pods (podstatus lays them in); status.storageHealth of the
// CSINode; csi_node_storage_health_status. Each driver is asked by goroutines of its own: one that
// hangs is not asked again before it answers, and keeps nobody. A call that fails changes nothing:
// it is no recovery.
package volumehealth
