package reason

// Why a node is no place for a Pod. Each is one plugin's refusal, with the remedy in its Fix.
const (
	// a resource does not suffice: request less, free some, or add a node
	NoRoom         Code = "NoRoom"
	TooManyPods    Code = "TooManyPods"    // the node's limit of Pods is reached
	NoSuchResource Code = "NoSuchResource" // the node offers nothing of an asked resource
	// the node takes no new Pods: uncordon it or tolerate node.kubernetes.io/unschedulable
	Cordoned             Code = "Cordoned"
	TaintNotTolerated    Code = "TaintNotTolerated" // a taint has no matching toleration
	LabelsNotMatched     Code = "LabelsNotMatched"  // node selector, node affinity or the profile's added affinity
	OtherNodeNamed       Code = "OtherNodeNamed"    // spec.nodeName names another node
	PortTaken            Code = "PortTaken"         // a host port is taken
	SpreadExceeded       Code = "SpreadExceeded"    // a topology spread constraint would be broken
	SpreadKeyMissing     Code = "SpreadKeyMissing"  // the node lacks a label a topology spread constraint needs
	Affinity             Code = "PodWanted"         // no Pod that required affinity asks for is near
	AntiAffinity         Code = "PodMinded"         // a Pod that required anti-affinity keeps away from is near
	ExistingAntiAffinity Code = "PodUnwelcome"      // the required anti-affinity of a Pod near keeps this one out
	VolumeElsewhere      Code = "VolumeElsewhere"   // a bound volume cannot follow to the node
	VolumeGone           Code = "VolumeGone"        // a claim is bound to a volume that is not there
	VolumeNotFound       Code = "VolumeNotFound"    // no free volume for a claim, and none can be made
	VolumeNoSpace        Code = "VolumeNoSpace"     // no storage left to make a volume from
	VolumeTaken          Code = "VolumeTaken"       // another Pod has the volume and it cannot be shared
	TooManyVolumes       Code = "TooManyVolumes"    // the node's limit of attached volumes is reached
	FeatureMissing       Code = "FeatureMissing"    // the node's kubelet does not declare a feature that the Pod needs
	NoDevices            Code = "NoDevices"         // not enough free devices of a class for a resource claim
	DevicesElsewhere     Code = "DevicesElsewhere"  // a claim's devices cannot be reached from the node
	Gated                Code = "Gated"             // scheduling gates are left
)
