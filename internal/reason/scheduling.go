package reason

// Why a Filter plugin rejects a node for a Pod. Each code belongs to one plugin; the remedy is in
// Fix.
const (
	// a resource does not suffice: request less, free some, or add a node
	NoRoom         Code = "NoRoom"
	TooManyPods    Code = "TooManyPods"    // the node's limit of Pods is reached
	NoSuchResource Code = "NoSuchResource" // the node offers nothing of an asked resource
	// the node takes no new Pods: uncordon it or tolerate node.kubernetes.io/unschedulable
	Cordoned          Code = "Cordoned"
	TaintNotTolerated Code = "TaintNotTolerated" // a taint has no matching toleration
	LabelsNotMatched  Code = "LabelsNotMatched"  // node selector, node affinity or the profile's added affinity
	OtherNodeNamed    Code = "OtherNodeNamed"    // spec.nodeName names another node
	PortTaken         Code = "PortTaken"         // a host port is taken
	SpreadExceeded    Code = "SpreadExceeded"    // a topology spread constraint would be broken
	SpreadKeyMissing  Code = "SpreadKeyMissing"  // the node lacks a label a topology spread constraint needs
	// no Pod that required affinity asks for is in the node's domain
	Affinity Code = "Affinity"
	// a Pod that required anti-affinity keeps away from is in the node's domain
	AntiAffinity Code = "AntiAffinity"
	// the required anti-affinity of a Pod in the node's domain keeps this one out
	ExistingAntiAffinity Code = "ExistingAntiAffinity"
	VolumeElsewhere      Code = "VolumeElsewhere"  // a bound volume cannot follow to the node
	VolumeGone           Code = "VolumeGone"       // a claim is bound to a volume that is not there
	VolumeNotFound       Code = "VolumeNotFound"   // no free volume for a claim, and none can be made
	VolumeNoSpace        Code = "VolumeNoSpace"    // no storage left to make a volume from
	VolumeTaken          Code = "VolumeTaken"      // another Pod has the volume and it cannot be shared
	TooManyVolumes       Code = "TooManyVolumes"   // the node's limit of attached volumes is reached
	DriverMissing        Code = "DriverMissing"    // a CSI driver that Pods need on their node is not there
	FeatureMissing       Code = "FeatureMissing"   // the node's kubelet does not declare a feature that the Pod needs
	NoDevices            Code = "NoDevices"        // not enough free devices of a class for a resource claim
	DevicesElsewhere     Code = "DevicesElsewhere" // a claim's devices cannot be reached from the node
	Gated                Code = "Gated"            // scheduling gates are left
)
