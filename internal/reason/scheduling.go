package reason

// Reasons why a node is infeasible. Each is one plugin's refusal, with the remedy in its Fix.
const (
	// a resource does not suffice: request less, free some, or add a node
	NoRoom         Code = "NoRoom"
	TooManyPods    Code = "TooManyPods"    // the node's maximum of Pods is reached
	NoSuchResource Code = "NoSuchResource" // the node does not have a requested resource
	// the node is unschedulable: uncordon it or tolerate node.kubernetes.io/unschedulable
	Cordoned          Code = "Cordoned"
	TaintNotTolerated Code = "TaintNotTolerated" // a taint has no matching toleration
	LabelsNotMatched  Code = "LabelsNotMatched"  // node selector, node affinity or the profile's added affinity
	OtherNodeNamed    Code = "OtherNodeNamed"    // spec.nodeName names another node
	PortTaken         Code = "PortTaken"         // a host port is taken
	SpreadExceeded    Code = "SpreadExceeded"    // a topology spread constraint would be broken
	SpreadKeyMissing  Code = "SpreadKeyMissing"  // the node lacks a label a topology spread constraint needs
	Affinity          Code = "PodWanted"         // no Pod that required affinity selects is in the node's domain
	AntiAffinity      Code = "PodMinded"         // a Pod that required anti-affinity selects is in the node's domain
	// the required anti-affinity of a Pod in the node's domain selects this one
	ExistingAntiAffinity Code = "PodUnwelcome"
	VolumeElsewhere      Code = "VolumeElsewhere"  // a bound volume is not accessible from the node
	VolumeGone           Code = "VolumeGone"       // a claim is bound to a volume that does not exist
	VolumeNotFound       Code = "VolumeNotFound"   // no available volume for a claim, and none can be provisioned
	VolumeNoSpace        Code = "VolumeNoSpace"    // not enough storage to provision a volume
	VolumeTaken          Code = "VolumeTaken"      // another Pod uses the volume and it cannot be shared
	TooManyVolumes       Code = "TooManyVolumes"   // the node's limit of attached volumes is reached
	FeatureMissing       Code = "FeatureMissing"   // the node's kubelet does not declare a feature that the Pod needs
	NoDevices            Code = "NoDevices"        // not enough free devices of a class for a resource claim
	DevicesElsewhere     Code = "DevicesElsewhere" // a claim's devices are not accessible from the node
	Gated                Code = "Gated"            // scheduling gates remain
)
