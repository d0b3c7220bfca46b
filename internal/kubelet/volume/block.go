package volume

// BlockVolumePlugin is a Plugin whose volumes may be raw (volumeMode Block): upstream's. Once SetUp
// has said where the device is, the kubelet maps it.
type BlockVolumePlugin interface {
	Plugin
	// GlobalMapPath is the directory, below the kubelet's, where a raw volume is bound for each Pod
	// by the Pod's uid, by the name of its PersistentVolume.
	GlobalMapPath(specName string) string
}

// FileDevices keeps devices open while they are mapped, so that none is replaced by another of its
// name; linux/loop implements it, with loop devices as upstream.
type FileDevices interface {
	// AttachFileDevice keeps the device at a path open, and returns what does. It can be repeated.
	AttachFileDevice(path string) (loop string, err error)
	// DetachFileDevice ends that. It is a success when there is nothing.
	DetachFileDevice(path string) error
}
