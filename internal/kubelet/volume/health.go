package volume

import "k8s.io/apimachinery/pkg/types"

// VolumeToHealthCheck is a volume of a Pod whose driver can be asked how it is: one that is behind
// a PersistentVolume, and that the driver was asked to stage or publish.
type VolumeToHealthCheck struct {
	PodUID         types.UID
	Name           string // as in the Pod's spec.volumes
	Driver, Handle string
	// where the driver was told to stage and to publish it; empty as long as it was not, and
	// PublishPath of a raw device, as upstream
	StagingPath, PublishPath string
}
