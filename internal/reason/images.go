package reason

// Refusals while the kubelet pulls images and mounts volumes. The code is the container's waiting
// reason or the event's reason.
const (
	// the pull failed; Detail is what the registry or runtime said
	ErrImagePull      Code = "ErrImagePull"
	ImagePullBackOff  Code = "ImagePullBackOff"  // the next pull is put off
	ErrImageNeverPull Code = "ErrImageNeverPull" // not on the node, and the policy is Never
	InvalidImageName  Code = "InvalidImageName"  // not an image reference
	// the runtime could not say whether the image is there
	ImageInspectError         Code = "ImageInspectError"
	RegistryUnavailable       Code = "RegistryUnavailable"       // the registry did not answer
	SignatureValidationFailed Code = "SignatureValidationFailed" // the image's signature is not accepted
	FailedMount               Code = "FailedMount"               // a volume could not be made ready
	// a subPath, or an object an environment variable needs, is not there
	CreateContainerConfigError Code = "CreateContainerConfigError"
)
