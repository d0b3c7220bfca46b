package reason

// Reasons around images and volumes. The code is the container's waiting reason or the event's
// reason.
const (
	// the pull failed; Detail is what the registry or runtime said
	ErrImagePull      Code = "ErrImagePull"
	ImagePullBackOff  Code = "ImagePullBackOff"  // the next pull is delayed
	ErrImageNeverPull Code = "ErrImageNeverPull" // not on the node, and the policy is Never
	InvalidImageName  Code = "InvalidImageName"  // not an image reference
	// the runtime did not say whether the image exists
	ImageInspectError         Code = "ImageInspectError"
	RegistryUnavailable       Code = "RegistryUnavailable"       // the registry did not answer
	SignatureValidationFailed Code = "SignatureValidationFailed" // the image's signature is not accepted
	FailedMount               Code = "FailedMount"               // a volume could not be set up
	// a subPath, or an object that an environment variable refers to, does not exist
	CreateContainerConfigError Code = "CreateContainerConfigError"
)
