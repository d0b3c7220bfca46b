package reason

// Why a container waits, or a Pod is not taken in or not kept by its node. The codes are upstream's
// container waiting reasons and event reasons.
const (
	CreateContainerError Code = "CreateContainerError" // the runtime would not make it
	RunContainerError    Code = "RunContainerError"    // the runtime would not start it
	PostStartHookError   Code = "PostStartHookError"   // its postStart hook failed
	CrashLoopBackOff     Code = "CrashLoopBackOff"     // it keeps ending; the next start waits
	// the runtime or the network would not make the sandbox
	FailedCreatePodSandBox Code = "FailedCreatePodSandBox"
	FailedStop             Code = "FailedKillPod" // the runtime would not stop something
	FailedRelease          Code = "FailedRelease" // volumes, cgroup or records could not be removed
	// the devices of a Pod's resource claims were not made ready
	FailedPrepareDevices Code = "FailedPrepareDynamicResources"
	FailedCgroup         Code = "FailedCreatePodContainer" // the Pod's cgroup could not be made

	ResizeDeferred   Code = "Deferred"    // the node has no room for the new size now
	ResizeInfeasible Code = "Infeasible"  // the new size can never be had on this node
	ResizeError      Code = "ResizeError" // the runtime or a cgroup did not take the new size

	AdmitOS           Code = "PodOSNotSupported"
	AdmitOSSelector   Code = "PodOSSelectorNodeLabelDoesNotMatch"
	AdmitSysctl       Code = "SysctlForbidden"
	AdmitAppArmor     Code = "AppArmor"
	AdmitGroups       Code = "SupplementalGroupsPolicyNotSupported"
	AdmitNodeAffinity Code = "NodeAffinity"
	AdmitNodeName     Code = "NodeName"
	AdmitNodePorts    Code = "NodePorts"
	AdmitTaint        Code = "TaintToleration"
	AdmitFeature      Code = "PodFeatureUnsupported"
	AdmitUnexpected   Code = "UnexpectedAdmissionError"
	NodeShutdown      Code = "NodeShutdown" // the node is shutting down
)
